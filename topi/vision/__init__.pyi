"""The operators of tilewright.topi.vision; written by docs/make_faces.py."""

from .boxes import get_valid_counts as get_valid_counts, non_max_suppression as non_max_suppression
from .regions import roi_align as roi_align, roi_pool as roi_pool
