# What we use of scikit-image. For the type checker alone.
