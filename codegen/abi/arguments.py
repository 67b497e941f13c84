"""Reading what Python passes to a kernel, as LLVM IR text: an ArgumentRecord for each argument, or the way to the Python path.

`table` is the symbol of the kernel's CallTable. Leaving to %slow means the Python path, to %unclear the same with a Python error
to be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...runtime.abi import (
    DLPACK_TYPES,
    NUMPY_TYPE_NUMBERS,
    PACKED_TYPES,
    REGISTERED_TYPES,
    WRITEABLE,
    ArgumentRecord,
    ArrayFields,
    CallTable,
    DescrFields,
    DLTensor,
    Flag,
)
from ...runtime.device import HOST_KINDS
from ...runtime.signature import BufferParam, ScalarParam
from .straight_line import StraightLine

__all__ = ["RECORD_BYTES", "process_word", "read_scalar", "read_tensor", "record_offset"]

RECORD_BYTES = ArgumentRecord.__dict__["reserved"].offset + 4  # `reserved` is the last field, of 32 bits


def record_offset(param: int, name: str) -> int:
    """Return where a field of parameter `param` stands among the ArgumentRecords of a call."""
    return param * RECORD_BYTES + getattr(ArgumentRecord, name).offset


def process_word(text: StraightLine, table: str, field: str, kind: str = "ptr") -> str:
    """A word of the table."""
    return text.load(kind, f"@{table}", getattr(CallTable, field).offset)


def read_tensor(text: StraightLine, table: str, i: int, param: BufferParam, given: str) -> None:
    """Fill the record of a numpy array or tw.Array whose dtype is right, or of a tensor that describes itself; anything else is
    for the Python path."""
    kind = text.load("ptr", given, ArrayFields.ob_type.offset)
    numpys = text.compare("eq", "ptr", kind, process_word(text, table, "array_type"))
    ours = text.compare("eq", "ptr", kind, process_word(text, table, "own_array_type"))
    array, other, read = text.label("array"), text.label("other"), text.label("read")
    text.add(f"br i1 {text.either(numpys, ours)}, label %{array}, label %{other}")
    text.start(other)
    # types that describe themselves register their function once, so another type is another library's
    text.leave_if(text.compare("ne", "ptr", kind, process_word(text, table, "exchange_type")), "slow")
    _read_described(text, table, i, param, given)
    text.add(f"br label %{read}")
    text.start(array)
    if param.dtype in PACKED_TYPES:  # numpy has an element a byte: the Python path packs them
        text.add("br label %slow")
        text.start(read)
        return
    # a subclass of ndarray has another ob_type: it may override what we would read in place
    _read_array(text, table, i, param, given)
    text.add(f"br label %{read}")
    text.start(read)


def _read_described(text: StraightLine, table: str, i: int, param: BufferParam, given: str) -> None:
    """Fill the record of a tensor by the function of its type. One that requires grad, is a negative view, lies elsewhere than in the
    host's memory, has none or does not begin where its data does is for the Python path, as is one of which the function raises."""
    get = process_word(text, table, "get_attribute")
    _require_false(text, table, f"{get}(ptr {given}, ptr {process_word(text, table, 'requires_grad')})")
    describe = process_word(text, table, "exchange")
    failed = text.value(f"call i32 {describe}(ptr {given}, ptr %described)")
    text.leave_if(text.compare("ne", "i32", failed, 0), "unclear")
    device = text.load("i32", "%described", DLTensor.device_type.offset)
    # memory of a GPU, which a CPU's kernel must not follow
    text.leave_if(text.compare("ne", "i32", device, HOST_KINDS[0]), "slow")
    offset = text.load("i64", "%described", DLTensor.byte_offset.offset)
    # DLPack lets data and first element differ, records do not
    text.leave_if(text.compare("ne", "i64", offset, 0), "slow")
    dtype = text.load("i32", "%described", DLTensor.dtype.offset)
    fields = {
        field: (kind, text.load(kind, "%described", getattr(DLTensor, field).offset))
        for field, kind in (("data", "ptr"), ("shape", "ptr"), ("strides", "ptr"), ("ndim", "i32"))
    }
    # As of a tensor whose storage was freed or that wraps another: the Python path tells it from one without elements.
    text.leave_if(text.compare("eq", "ptr", fields["data"][1], "null"), "slow")
    # DLPack's dtype: code in bits 0 to 7, bits in 8 to 15, lanes above
    bits = text.value(f"and i32 {text.value(f'lshr i32 {dtype}, 8')}, 255")
    # strides of what lies packed are compared in elements
    item = "1" if param.dtype in PACKED_TYPES else text.value(f"zext i32 {text.value(f'lshr i32 {bits}, 3')} to i64")
    _write_record(text, i, fields | {"unit": ("i64", item), "dtype": ("i32", dtype), "flags": ("i32", "0")})
    # otherwise a fixed extent of 2 or more settles that it has several elements
    if all(extent == 1 or not isinstance(extent, int) for extent in param.shape):
        _refuse_negative(text, table, len(param.shape), given, fields["ndim"][1], fields["shape"][1])


def _refuse_negative(text: StraightLine, table: str, rank: int, given: str, ndim: str, shape: str) -> None:
    """Leave a negative view to the Python path. Those are views of complex numbers, so that one of several elements has strides that
    no kernel takes, and only one of a single element is asked, which takes a tenth of a microsecond."""
    asked, passed = text.label("asked"), text.label("passed")
    text.leave_if(text.compare("ne", "i32", ndim, rank), "slow")
    single = "true"
    for dimension in range(rank):
        single = text.both(single, text.compare("eq", "i64", text.load("i64", shape, 8 * dimension), 1))
    text.add(f"br i1 {single}, label %{asked}, label %{passed}")
    text.start(asked)
    text.store("ptr", given, "%described", 0)  # the method's arguments are its owner alone
    method = process_word(text, table, "call_without_arguments")
    name = process_word(text, table, "is_neg")
    _require_false(text, table, f"{method}(ptr {name}, ptr %described, i64 1, ptr null)")
    text.add(f"br label %{passed}")
    text.start(passed)


def _require_false(text: StraightLine, table: str, call: str) -> None:
    """Leave to the Python path where a call to Python gives anything else."""
    answer = text.value(f"call ptr {call}")
    text.leave_if(text.compare("eq", "ptr", answer, "null"), "unclear")
    text.add(f"call void {process_word(text, table, 'decref')}(ptr {answer})")  # False is never freed
    text.leave_if(text.compare("ne", "ptr", answer, process_word(text, table, "false")), "slow")


def _write_record(text: StraightLine, i: int, fields: Mapping[str, tuple[str, str]]) -> None:
    for field, (kind, value) in fields.items():
        text.store(kind, value, "%records", record_offset(i, field))


def _read_array(text: StraightLine, table: str, i: int, param: BufferParam, given: str) -> None:
    """Fill the record of a numpy array."""
    descr = text.load("ptr", given, ArrayFields.descr.offset)
    number = text.load("i32", descr, DescrFields.type_num.offset)
    if param.dtype in REGISTERED_TYPES:
        # ml_dtypes registers it at run time, so that its number is not known when the kernel is compiled
        registered = text.value(f"trunc i64 {process_word(text, table, f'{param.dtype}_number', 'i64')} to i32")
        wrong = text.compare("ne", "i32", number, registered)
    else:
        # one dtype may have two numbers in numpy, as long and long long are both int64
        first, *others = NUMPY_TYPE_NUMBERS[param.dtype]
        wrong = text.compare("ne", "i32", number, first)
        for other in others:
            wrong = text.both(wrong, text.compare("ne", "i32", number, other))  # wrong only if it is none of them
    # '>' is big-endian: the hosts that kernels run on are little-endian
    swapped = text.compare("eq", "i8", text.load("i8", descr, DescrFields.byteorder.offset), ord(">"))
    text.leave_if(text.either(wrong, swapped), "slow")
    flags = text.load("i32", given, ArrayFields.flags.offset)
    # a read-only array may still be an input: the check asks only of outputs
    fixed = text.compare("eq", "i32", text.value(f"and i32 {flags}, {WRITEABLE}"), 0)
    _write_record(
        text,
        i,
        {
            "data": ("ptr", text.load("ptr", given, ArrayFields.data.offset)),
            "shape": ("ptr", text.load("ptr", given, ArrayFields.dimensions.offset)),
            "strides": ("ptr", text.load("ptr", given, ArrayFields.strides.offset)),
            "unit": ("i64", "1"),  # numpy counts strides in bytes, DLPack in elements
            "dtype": ("i32", str(DLPACK_TYPES[param.dtype])),
            "ndim": ("i32", text.load("i32", given, ArrayFields.nd.offset)),
            "flags": ("i32", text.value(f"select i1 {fixed}, i32 {int(Flag.READ_ONLY)}, i32 0")),
        },
    )


def read_scalar(text: StraightLine, table: str, i: int, param: ScalarParam, given: str) -> None:
    """Fill the record of a Python int, float or bool of exactly that type; others take the Python path."""
    if param.dtype == "bool":
        # True and False are two objects, so that a comparison of pointers is enough
        yes = text.compare("eq", "ptr", given, process_word(text, table, "true"))
        no = text.compare("eq", "ptr", given, process_word(text, table, "false"))
        text.leave_if(text.value(f"xor i1 {text.either(yes, no)}, true"), "slow")
        text.store("i64", text.value(f"zext i1 {yes} to i64"), "%records", record_offset(i, "data"))
        return
    kind = text.load("ptr", given, ArrayFields.ob_type.offset)
    if param.dtype in ("float32", "float64"):
        text.leave_if(text.compare("ne", "ptr", kind, process_word(text, table, "float_type")), "slow")
        text.store("i64", text.load("i64", given, 16), "%records", record_offset(i, "data"))  # PyFloatObject.ob_fval
        return
    if param.dtype in ("float16", *REGISTERED_TYPES):
        text.leave_if("true", "slow")  # rounding to so few bits is the Python path's business
        return
    text.leave_if(text.compare("ne", "ptr", kind, process_word(text, table, "int_type")), "slow")
    value = text.value(f"call i64 {process_word(text, table, 'int_value')}(ptr {given}, ptr %overflow)")
    # PyLong_AsLongLongAndOverflow says so instead of raising
    text.leave_if(text.compare("ne", "i32", text.load("i32", "%overflow", 0), 0), "slow")
    if param.dtype == "uint64":
        # values from 2**63 do overflow, and go to the Python path; negative ones would wrap
        text.leave_if(text.compare("slt", "i64", value, 0), "slow")
    text.store("i64", value, "%records", record_offset(i, "data"))
