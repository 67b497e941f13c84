import numpy as np
from numpy.typing import NDArray

def retina() -> NDArray[np.uint8]: ...
