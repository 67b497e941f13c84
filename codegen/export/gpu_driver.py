"""NVIDIA's driver called from exported libraries, as LLVM IR; the driver is looked for when a function first runs.

Nothing of the driver is linked: where there is none, the functions return a status. Code is loaded as the driver's libraries
(cuLibraryLoadData), which belong to no context, once in a process.
"""

from __future__ import annotations

from ...runtime.abi import Check, Trouble, pack_status
from ...runtime.tensor_map import L2_PROMOTION, MOST_DIMENSIONS
from ..abi.straight_line import StraightLine

__all__ = ["CAPABILITY", "DRIVER_LIBRARY", "FRAME_BYTES", "driver_text", "trouble"]

DRIVER_LIBRARY = "libcuda.so.1"
FRAME_BYTES, _PUSHED, _DEVICE, CAPABILITY = 16, 0, 8, 12
"""What a call knows of where it runs: whether it made a context current, the GPU, and ten times its major and its minor version."""

_FUNCTIONS = (
    "cuInit",
    "cuCtxGetCurrent",
    "cuStreamGetCtx",
    "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxGetDevice",
    "cuDeviceGetAttribute",
    "cuLibraryLoadData",
    "cuLibraryGetKernel",
    "cuKernelSetAttribute",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemcpyHtoDAsync_v2",
    "cuTensorMapEncodeTiled",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveClusters",
)
_NOW = 2  # RTLD_NOW
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
_PROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_CONFIG_BYTES = 56  # a CUlaunchConfig: the grid, the block, and shared memory stand first
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PER_THREAD = 2  # streams up to this number are names, not addresses
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_INVALID_VALUE = 1


def trouble(kind: Trouble) -> int:
    """The status of a trouble; the driver's result is added to it."""
    return pack_status(Check.CUDA, kind)


def driver_text(attributes: str) -> str:
    """The functions, for any processor. attributes: of such functions.

    i32 tw_cuda_enter(stream, frame)                      a status; the stream's context is current then
    void tw_cuda_leave(frame)
    i32 tw_cuda_load(slot, image)                         the driver's result; the slot holds the library
    i32 tw_cuda_launch(stream, frame, library, slot, name, x, y, z, bx, by, bz, shared, arguments)
    i32 tw_cuda_held(place, frame, library, slot, name, parts, threads, cluster, shared)    of so many parts, as many as blocks run at once
    i32 tw_cuda_map(map, address, kind, rank, extents, strides, box, swizzle)       how the copy engine finds boxes; rank 0: nothing
    i32 tw_cuda_allocate(place, bytes, stream), i32 tw_cuda_fill(place, contents, bytes, stream), void tw_cuda_free(place, stream)
    """
    names = "".join(
        f'@tw_cuda_name{at} = private constant [{len(name) + 1} x i8] c"{name}\\00"\n'
        for at, name in enumerate(_FUNCTIONS)
    )
    return "\n".join(
        [
            "declare ptr @dlopen(ptr, i32)",
            "declare ptr @dlsym(ptr, ptr)",
            f"@tw_cuda_functions = internal global [{len(_FUNCTIONS)} x ptr] zeroinitializer",
            "@tw_cuda_ready = internal global i32 0",
            "@tw_cuda_primary = internal global ptr null",
            f'@tw_cuda_library = private constant [{len(DRIVER_LIBRARY) + 1} x i8] c"{DRIVER_LIBRARY}\\00"',
            names,
            _function("i32 @tw_cuda_find()", _find(), attributes),
            _function("i32 @tw_cuda_context(ptr %stream, ptr %frame)", _context(), attributes),
            _function("i32 @tw_cuda_enter(ptr %stream, ptr %frame)", _enter(), attributes),
            _function("void @tw_cuda_leave(ptr %frame)", _leave(), attributes),
            _function("i32 @tw_cuda_load(ptr %slot, ptr %image)", _load(), attributes),
            _function(
                "i32 @tw_cuda_kernel(ptr %frame, ptr %library, ptr %slot, ptr %name, i32 %shared)",
                _kernel(),
                attributes,
            ),
            _function(
                "i32 @tw_cuda_launch(ptr %stream, ptr %frame, ptr %library, ptr %slot, ptr %name, i64 %x, i64 %y, i64 %z, "
                "i32 %bx, i32 %by, i32 %bz, i32 %shared, ptr %arguments)",
                _launch(),
                attributes,
            ),
            _function(
                "i32 @tw_cuda_held(ptr %place, ptr %frame, ptr %library, ptr %slot, ptr %name, i64 %parts, i32 %threads, "
                "i32 %cluster, i32 %shared)",
                _emit_held(),
                attributes,
            ),
            f"@tw_cuda_ones = private constant [{MOST_DIMENSIONS} x i32] [{', '.join(['i32 1'] * MOST_DIMENSIONS)}]",
            _function(
                "i32 @tw_cuda_map(ptr %map, i64 %address, i32 %kind, i32 %rank, ptr %extents, ptr %strides, ptr %box, "
                "i32 %swizzle)",
                _map(),
                attributes,
            ),
            _function("i32 @tw_cuda_allocate(ptr %place, i64 %bytes, ptr %stream)", _allocate(), attributes),
            _function("i32 @tw_cuda_fill(ptr %place, ptr %contents, i64 %bytes, ptr %stream)", _fill(), attributes),
            _function("void @tw_cuda_free(ptr %place, ptr %stream)", _free(), attributes),
        ]
    )


def _function(head: str, text: StraightLine, attributes: str) -> str:
    return f"define {head} {attributes} {{\n" + "\n".join(text.lines) + "\n}\n"


def _emit_call(text: StraightLine, name: str, arguments: str) -> str:
    """The result of one of the driver's functions."""
    place = f"getelementptr (i8, ptr @tw_cuda_functions, i64 {8 * _FUNCTIONS.index(name)})"
    # atomic, since another thread may be filling the table
    function = text.value(f"load atomic ptr, ptr {place} monotonic, align 8")
    return text.value(f"call i32 {function}({arguments})")


def _leave_unless_done(text: StraightLine, result: str, kind: Trouble | None = None) -> None:
    """Return the driver's result, or the status that tells it, where it is an error."""
    failed, on = text.label("failed"), text.label("on")
    text.add(f"br i1 {text.compare('ne', 'i32', result, 0)}, label %{failed}, label %{on}")
    text.start(failed)
    text.add(f"ret i32 {result if kind is None else text.value(f'add i32 {result}, {trouble(kind)}')}")
    text.start(on)


def _return_if(text: StraightLine, condition: str, status: str) -> None:
    out, on = text.label("out"), text.label("on")
    text.add(f"br i1 {condition}, label %{out}, label %{on}")
    text.start(out)
    text.add(f"ret {status}")
    text.start(on)


def _find() -> StraightLine:
    """The driver's functions, once; several threads may do it at the same time, and find the same."""
    text = StraightLine()
    ready = text.value("load atomic i32, ptr @tw_cuda_ready acquire, align 4")
    _return_if(text, text.compare("ne", "i32", ready, 0), "i32 0")
    library = text.value(f"call ptr @dlopen(ptr @tw_cuda_library, i32 {_NOW})")
    # dlopen of a library that is not there costs one search of the path, each time
    _return_if(text, text.compare("eq", "ptr", library, "null"), f"i32 {trouble(Trouble.NO_DRIVER)}")
    for at in range(len(_FUNCTIONS)):
        function = text.value(f"call ptr @dlsym(ptr {library}, ptr @tw_cuda_name{at})")
        # a driver without a function is older than what this code was written for
        _return_if(text, text.compare("eq", "ptr", function, "null"), f"i32 {trouble(Trouble.OLD_DRIVER)}")
        text.add(
            f"store atomic ptr {function}, ptr getelementptr (i8, ptr @tw_cuda_functions, i64 {8 * at}) monotonic, align 8"
        )
    _leave_unless_done(text, _emit_call(text, "cuInit", "i32 0"), Trouble.NO_GPU)
    # release: whoever sees the 1 sees the functions
    text.add("store atomic i32 1, ptr @tw_cuda_ready release, align 4")
    text.add("ret i32 0")
    return text


def _context() -> StraightLine:
    """Make the context current where the stream belongs: that of a stream with an address; of others the current one, else the
    first GPU's."""
    text = StraightLine()
    text.add("%context = alloca ptr")
    text.store("i32", "0", "%frame", _PUSHED)
    number = text.value("ptrtoint ptr %stream to i64")  # the default streams are names below the least address
    of_stream, of_thread, push, done = (text.label(name) for name in ("of_stream", "of_thread", "push", "done"))
    text.add(f"br i1 {text.compare('ugt', 'i64', number, _PER_THREAD)}, label %{of_stream}, label %{of_thread}")
    text.start(of_stream)
    _leave_unless_done(text, _emit_call(text, "cuStreamGetCtx", "ptr %stream, ptr %context"), Trouble.NO_GPU)
    text.add(f"br label %{push}")
    text.start(of_thread)
    _leave_unless_done(text, _emit_call(text, "cuCtxGetCurrent", "ptr %context"), Trouble.NO_GPU)
    ask, retain = text.label("ask"), text.label("retain")
    text.add(
        # a thread without a context: the first GPU's primary one
        f"br i1 {text.compare('eq', 'ptr', text.value('load ptr, ptr %context'), 'null')}, label %{ask}, label %{done}"
    )
    text.start(ask)
    known = text.value("load atomic ptr, ptr @tw_cuda_primary acquire, align 8")
    text.add(f"store ptr {known}, ptr %context")
    text.add(f"br i1 {text.compare('eq', 'ptr', known, 'null')}, label %{retain}, label %{push}")
    text.start(retain)
    # retained once and never released: it lives as long as the process
    _leave_unless_done(text, _emit_call(text, "cuDevicePrimaryCtxRetain", "ptr %context, i32 0"), Trouble.NO_GPU)
    text.add(f"store atomic ptr {text.value('load ptr, ptr %context')}, ptr @tw_cuda_primary release, align 8")
    text.add(f"br label %{push}")
    text.start(push)
    context = text.value("load ptr, ptr %context")
    _leave_unless_done(text, _emit_call(text, "cuCtxPushCurrent_v2", f"ptr {context}"), Trouble.NO_GPU)
    text.store("i32", "1", "%frame", _PUSHED)  # only what was pushed is popped
    text.add(f"br label %{done}")
    text.start(done)
    text.add("ret i32 0")
    return text


def _enter() -> StraightLine:
    text = StraightLine()
    for step in ("@tw_cuda_find()", "@tw_cuda_context(ptr %stream, ptr %frame)"):
        # in this order: finding the context needs the functions
        _leave_unless_done(text, text.value(f"call i32 {step}"))
    device = text.value(f"getelementptr i8, ptr %frame, i64 {_DEVICE}")
    capability = text.value(f"getelementptr i8, ptr %frame, i64 {CAPABILITY}")
    text.add("%minor = alloca i32")
    results = [_emit_call(text, "cuCtxGetDevice", f"ptr {device}")]
    index = text.value(f"load i32, ptr {device}")
    for place, attribute in ((capability, _MAJOR), ("%minor", _MINOR)):
        results.append(_emit_call(text, "cuDeviceGetAttribute", f"ptr {place}, i32 {attribute}, i32 {index}"))
    major, minor = text.value(f"load i32, ptr {capability}"), text.value("load i32, ptr %minor")
    tens = text.value(f"mul i32 {major}, 10")
    text.add(f"store i32 {text.value(f'add i32 {tens}, {minor}')}, ptr {capability}")
    result = results[0]
    for other in results[1:]:
        # the first result that is an error
        result = text.value(f"select i1 {text.compare('ne', 'i32', result, 0)}, i32 {result}, i32 {other}")
    failed, on = text.label("failed"), text.label("on")
    text.add(f"br i1 {text.compare('ne', 'i32', result, 0)}, label %{failed}, label %{on}")
    text.start(failed)
    text.add("call void @tw_cuda_leave(ptr %frame)")  # what enter pushed has to be popped by itself, where it fails
    text.add(f"ret i32 {text.value(f'add i32 {result}, {trouble(Trouble.NO_GPU)}')}")
    text.start(on)
    text.add("ret i32 0")
    return text


def _leave() -> StraightLine:
    text = StraightLine()
    text.add("%context = alloca ptr")
    pushed = text.load("i32", "%frame", _PUSHED)
    _return_if(text, text.compare("eq", "i32", pushed, 0), "void")
    _emit_call(text, "cuCtxPopCurrent_v2", "ptr %context")
    text.add("ret void")
    return text


def _load() -> StraightLine:
    """Two threads may load an image twice: either does."""
    text = StraightLine()
    text.add("%library = alloca ptr")
    known = text.value("load atomic ptr, ptr %slot acquire, align 8")
    _return_if(text, text.compare("ne", "ptr", known, "null"), "i32 0")  # loaded before
    _leave_unless_done(
        text,
        _emit_call(
            text, "cuLibraryLoadData", "ptr %library, ptr %image, ptr null, ptr null, i32 0, ptr null, ptr null, i32 0"
        ),
    )
    # another thread's library is lost where both loaded one
    text.add(f"store atomic ptr {text.value('load ptr, ptr %library')}, ptr %slot release, align 8")
    text.add("ret i32 0")
    return text


def _kernel() -> StraightLine:
    """The driver's result; the slot holds the kernel. How much shared memory it may have is said for each GPU, and so each time."""
    text = StraightLine()
    text.add("%kernel = alloca ptr")
    known = text.value("load atomic ptr, ptr %slot acquire, align 8")
    find, allow = text.label("find"), text.label("allow")
    text.add(f"br i1 {text.compare('eq', 'ptr', known, 'null')}, label %{find}, label %{allow}")
    text.start(find)
    library = text.value("load atomic ptr, ptr %library acquire, align 8")
    _leave_unless_done(text, _emit_call(text, "cuLibraryGetKernel", f"ptr %kernel, ptr {library}, ptr %name"))
    text.add(f"store atomic ptr {text.value('load ptr, ptr %kernel')}, ptr %slot release, align 8")
    text.add(f"br label %{allow}")
    text.start(allow)
    _return_if(text, text.compare("eq", "i32", "%shared", 0), "i32 0")  # up to 48 KiB need no permission
    kernel, device = text.value("load atomic ptr, ptr %slot acquire, align 8"), text.load("i32", "%frame", _DEVICE)
    result = _emit_call(text, "cuKernelSetAttribute", f"i32 {_DYNAMIC_SHARED}, i32 %shared, ptr {kernel}, i32 {device}")
    text.add(f"ret i32 {result}")
    return text


def _launch() -> StraightLine:
    """A status. Nothing is done for a grid without blocks."""
    text = StraightLine()
    extents = ("%x", "%y", "%z")
    for extent in extents:
        # an empty tensor: the driver would refuse the launch
        _return_if(text, text.compare("sle", "i64", extent, 0), "i32 0")
    for extent, most in zip(extents, _MOST_BLOCKS, strict=True):
        # the driver takes 32 bits, so that what exceeds them must not wrap
        _return_if(text, text.compare("sgt", "i64", extent, most), f"i32 {trouble(Trouble.LAUNCH) + _INVALID_VALUE}")
    found = text.value("call i32 @tw_cuda_kernel(ptr %frame, ptr %library, ptr %slot, ptr %name, i32 %shared)")
    _leave_unless_done(text, found, Trouble.LOAD)
    kernel = text.value("load atomic ptr, ptr %slot acquire, align 8")
    grid = ", ".join(f"i32 {text.value(f'trunc i64 {extent} to i32')}" for extent in extents)
    result = _emit_call(
        text,
        "cuLaunchKernel",
        f"ptr {kernel}, {grid}, i32 %bx, i32 %by, i32 %bz, i32 %shared, ptr %stream, ptr %arguments, ptr null",
    )  # null: no extras, arguments are passed one by one
    _leave_unless_done(text, result, Trouble.LAUNCH)
    text.add("ret i32 0")
    return text


def _emit_held() -> StraightLine:
    """A status; the place holds how many blocks along x take so many parts: those that the GPU holds at once, whole clusters."""
    text = StraightLine()
    text.add("%each = alloca i32")
    text.add("%times = alloca i32")
    text.add(f"%config = alloca [{_CONFIG_BYTES} x i8], align 8")
    found = text.value("call i32 @tw_cuda_kernel(ptr %frame, ptr %library, ptr %slot, ptr %name, i32 %shared)")
    _leave_unless_done(text, found, Trouble.LOAD)
    kernel = text.value("load atomic ptr, ptr %slot acquire, align 8")
    text.add("store i32 %cluster, ptr %times")
    single, together, done = (text.label(name) for name in ("single", "together", "done"))
    # without clusters the driver tells blocks of one processor, with them clusters of the GPU
    text.add(f"br i1 {text.compare('eq', 'i32', '%cluster', 1)}, label %{single}, label %{together}")
    text.start(single)
    bytes_ = text.value("zext i32 %shared to i64")
    occupied = f"ptr %each, ptr {kernel}, i32 %threads, i64 {bytes_}"
    _leave_unless_done(text, _emit_call(text, "cuOccupancyMaxActiveBlocksPerMultiprocessor", occupied), Trouble.LAUNCH)
    asked = f"ptr %times, i32 {_PROCESSORS}, i32 {text.load('i32', '%frame', _DEVICE)}"
    _leave_unless_done(text, _emit_call(text, "cuDeviceGetAttribute", asked), Trouble.LAUNCH)
    text.add(f"br label %{done}")
    text.start(together)
    # CUlaunchConfig without attributes but those of the kernel
    text.add(f"store [{_CONFIG_BYTES} x i8] zeroinitializer, ptr %config")
    parts = text.value("trunc i64 %parts to i32")
    for at, value in enumerate((parts, "1", "1", "%threads", "1", "1", "%shared")):
        text.store("i32", value, "%config", 4 * at)
    called = _emit_call(text, "cuOccupancyMaxActiveClusters", f"ptr %each, ptr {kernel}, ptr %config")
    _leave_unless_done(text, called, Trouble.LAUNCH)
    text.add(f"br label %{done}")
    text.start(done)
    held = text.value(f"mul i32 {text.value('load i32, ptr %each')}, {text.value('load i32, ptr %times')}")
    # at least one cluster, which the launch itself may refuse
    held = text.value(f"select i1 {text.compare('slt', 'i32', held, '%cluster')}, i32 %cluster, i32 {held}")
    held = text.value(f"zext i32 {held} to i64")
    # never more blocks than there are parts
    held = text.value(f"select i1 {text.compare('slt', 'i64', held, '%parts')}, i64 {held}, i64 %parts")
    text.store("i64", held, "%place", 0)
    text.add("ret i32 0")
    return text


def _map() -> StraightLine:
    text = StraightLine()
    _return_if(text, text.compare("eq", "i32", "%rank", 0), "i32 0")
    place = text.value("inttoptr i64 %address to ptr")
    result = _emit_call(
        text,
        "cuTensorMapEncodeTiled",
        f"ptr %map, i32 %kind, i32 %rank, ptr {place}, ptr %extents, ptr %strides, ptr %box, ptr @tw_cuda_ones, "
        f"i32 0, i32 %swizzle, i32 {L2_PROMOTION}, i32 0",
    )
    _leave_unless_done(text, result, Trouble.LAUNCH)
    text.add("ret i32 0")
    return text


def _allocate() -> StraightLine:
    text = StraightLine()
    # the driver refuses to allocate 0 bytes
    least = text.value(f"select i1 {text.compare('slt', 'i64', '%bytes', 1)}, i64 1, i64 %bytes")
    _leave_unless_done(
        text, _emit_call(text, "cuMemAllocAsync", f"ptr %place, i64 {least}, ptr %stream"), Trouble.MEMORY
    )
    text.add("ret i32 0")
    return text


def _fill() -> StraightLine:
    text = StraightLine()
    _leave_unless_done(text, text.value("call i32 @tw_cuda_allocate(ptr %place, i64 %bytes, ptr %stream)"))
    _return_if(text, text.compare("eq", "i64", "%bytes", 0), "i32 0")  # nothing to copy of an empty constant
    memory = text.value("load i64, ptr %place")
    _leave_unless_done(
        text,
        _emit_call(text, "cuMemcpyHtoDAsync_v2", f"i64 {memory}, ptr %contents, i64 %bytes, ptr %stream"),
        Trouble.MEMORY,
    )
    text.add("ret i32 0")
    return text


def _free() -> StraightLine:
    text = StraightLine()
    memory = text.value("load i64, ptr %place")
    _return_if(text, text.compare("eq", "i64", memory, 0), "void")  # 0 was never allocated
    _emit_call(text, "cuMemFreeAsync", f"i64 {memory}, ptr %stream")
    text.add("ret void")
    return text
