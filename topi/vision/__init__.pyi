"""The operators of tilewright.topi.vision; written by docs/make_faces.py."""

from .regions import roi_align as roi_align, roi_pool as roi_pool
