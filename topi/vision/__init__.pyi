"""The operators of tilewright.topi.vision; written by docs/make_faces.py."""

from .anchors import (
    multibox_detection as multibox_detection,
    multibox_prior as multibox_prior,
    multibox_transform_loc as multibox_transform_loc,
    proposal as proposal,
)
from .boxes import get_valid_counts as get_valid_counts, non_max_suppression as non_max_suppression
from .regions import roi_align as roi_align, roi_pool as roi_pool
