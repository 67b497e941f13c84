"""Built kernels kept on disk, so that another process finds them: what a build is known by, and where it is kept."""
