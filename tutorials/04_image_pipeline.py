"""4. An image pipeline: two blurs and a sharpening, scheduled so that each band of rows stays in the cache.

The pipeline is that of `tilewright run --demo`, declared in demo/unsharp.py.
"""

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.demo import unsharp
from tilewright.demo.picture import read_picture

picture, _ = read_picture()  # a photograph where scikit-image is installed, else rings
image = np.ascontiguousarray(picture[:400, :600])
height, width, channels = image.shape
want = unsharp.reference(image)
out = np.empty_like(image)

# Unscheduled: each stage is computed whole before the next one begins.
stages = unsharp.declare(height, width, channels)
s = te.create_schedule(stages.sharp)
print(s)
f = tw.build(s, [stages.image, stages.sharp])
f(image, out)
assert (out == want).all()
print("stage after stage:", f.time(image, out))

# Scheduled: bands of 32 rows; the blurred rows that a band needs are computed just before it, a few rows more than
# the band because its stencil reaches over the edge.
s, args = unsharp.scheduled(height, width, channels)
print(s)
f = tw.build(s, args)
f(image, out)
assert (out == want).all()
print("band by band:", f.time(image, out))
