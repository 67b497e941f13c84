"""Errors of graphs, their text and files, and of the models that they came from."""

from __future__ import annotations

from ..base.errors import ExportError, GraphError


class BadGraph(GraphError):
    """A graph that is not whole: a value that nobody defines, a name that is taken, a shape that is none."""

    code = "TW0901"


class UnknownOperator(GraphError):
    """An operator that the table does not have, or an attribute that the operator does not take."""

    code = "TW0902"


class BadNode(GraphError):
    """An operator that does not take these inputs and attributes."""

    code = "TW0903"


class BadGraphText(GraphError):
    """A text that describes no graph."""

    code = "TW0904"


class BadGraphFile(GraphError):
    """A file that holds no graph, or not a whole one."""

    code = "TW0905"


class BadGraphInput(GraphError):
    """A graph, or the model that was built from it, called with arrays that it does not take."""

    code = "TW0906"


class UnboundParam(GraphError):
    """A graph whose text was parsed without the values of its parameters, and that is to be run, built or saved."""

    code = "TW0907"


class TargetTakesNoGraph(GraphError):
    """A target, or an option of tw.build, that models cannot be built with."""

    code = "TW0908"


class BadBuckets(GraphError):
    """Sizes that were named for code of their own, and that the graph's symbols do not have."""

    code = "TW0909"


class ModelPackageMissing(GraphError):
    """A model whose format needs a package that is not installed."""

    code = "TW0910"


class NotAModel(GraphError):
    """A file, or bytes, that hold no model, or not a whole one."""

    code = "TW0911"


class UnsupportedModel(GraphError):
    """A model with operators, or uses of them, that are not supported. All of them are listed."""

    code = "TW0912"


class BadExternalData(GraphError):
    """Weights in a file beside the model that are not where they may be, or not whole."""

    code = "TW0913"


class ModelNotExportable(ExportError):
    """A model that cannot be written as a library, or not in this way."""

    code = "TW0915"


class UnknownPass(GraphError):
    """A pass over graphs that there is not."""

    code = "TW0914"


class InvalidNode(GraphError):
    """A node of a model that its operator's own definition does not allow."""

    code = "TW0916"


class NoGradient(GraphError):
    """A gradient of what is not a single float, by what is not a float, or through an operator that has none."""

    code = "TW0930"


class BadTraining(GraphError):
    """A training that is none: an optimizer or an option that there is not, or weights that are not parameters."""

    code = "TW0931"
