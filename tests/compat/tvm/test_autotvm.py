"""Programs for tvm.autotvm and tvm.auto_scheduler run with their import lines changed."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune
from tilewright.compat import tvm
from tilewright.compat.tvm import auto_scheduler, autotvm, te, topi

OPTION = autotvm.measure_option(
    builder=autotvm.LocalBuilder(n_parallel=1), runner=autotvm.LocalRunner(number=2, repeat=1)
)


@autotvm.template("test/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


def check_matmul(s, args) -> None:
    func = tvm.build(s, args, target="llvm")
    a, b = (np.random.uniform(size=[int(one) for one in arg.shape]).astype("float32") for arg in args[:2])
    c = tvm.nd.empty((a.shape[0], b.shape[1]))
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a.dot(b), rtol=1e-4)


def record(task, index: int, seconds: float, error_no: int = 0) -> str:
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(index))
    return autotvm.record.encode(inp, autotvm.MeasureResult((seconds,), error_no, 0.1, 1.7e9))


def test_the_simple_template_of_the_tutorial_is_tuned_logged_and_applied(tmp_path: Path, capsys) -> None:
    task = autotvm.task.create("test/matmul", args=(24, 16, 32, "float32"), target="llvm")
    assert len(task.config_space) == 8 * 6
    assert "tile_x: Split(policy=factors, product=32, num_outputs=2) len=6" in str(task.config_space)
    assert task.flop == 2 * 24 * 16 * 32
    log, seen = str(tmp_path / "matmul.log"), []
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(
        n_trial=4,
        measure_option=OPTION,
        callbacks=[
            autotvm.callback.log_to_file(log),
            autotvm.callback.progress_bar(4),
            lambda tuner, inputs, results: seen.extend(zip(inputs, results, strict=True)),
        ],
    )
    assert "(4/4)" in capsys.readouterr().out
    rows = list(autotvm.record.load_from_file(log))
    assert len(rows) == len(seen) == 4
    assert len({inp.config.index for inp, _ in rows}) == 4
    assert all(result.error_no == 0 and 0 < result.costs[0] < 1 for _, result in rows)
    fastest = min(rows, key=lambda row: row[1].costs[0])[0].config
    assert tuner.best_config == fastest
    with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
        s, args = matmul(24, 16, 32, "float32")
    text = str(tvm.lower(s, args, simple_mode=True))
    for size in (fastest["tile_y"].size[-1], fastest["tile_x"].size[-1]):
        assert size == 1 or f"in {size}:" in text
    check_matmul(s, args)


def test_a_log_is_applied_in_another_process(tmp_path: Path) -> None:
    task = autotvm.task.create("test/matmul", args=(8, 8, 8, "float32"), target="llvm")
    log = tmp_path / "x.log"
    log.write_text(record(task, 6, 2e-3) + "\n" + record(task, 9, 1e-3) + "\n")  # 9: [-1, 2], [-1, 4]
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_autotvm import matmul, check_matmul
        from tilewright.compat import tvm
        from tilewright.compat.tvm import autotvm
        with autotvm.apply_history_best({str(log)!r}), tvm.target.Target("llvm"):
            s, args = matmul(8, 8, 8, "float32")
        check_matmul(s, args)
        print([line for line in str(tvm.lower(s, args)).splitlines() if "inner in" in line][:2])
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "i.inner in 2" in done.stdout
    assert "j.inner in 4" in done.stdout


def test_lines_that_are_no_records_are_left_out_with_a_warning(tmp_path: Path) -> None:
    task = autotvm.task.create("test/matmul", args=(8, 8, 8, "float32"), target="llvm")
    good = record(task, 5, 1e-3)
    bad = [good[:60], "{}", good.replace("0.001", "-1"), good.replace('"sp"', '"zz"'), "[1, 2]"]
    log = tmp_path / "x.log"
    log.write_text("\n".join([*bad, good, record(task, 6, 1e-9, error_no=4)]) + "\n")
    with pytest.warns(tw.TilewrightWarning, match="is not a record and is left out") as told:
        context = autotvm.apply_history_best(log)
    assert [f"line {n}," in str(one.message) for n, one in enumerate(told, 1)] == [True] * 5
    assert context.query(task.target, task.workload) == task.config_space.get(5)
    with pytest.raises(tw.TilewrightError, match="TW0634: the line is not a record"):
        autotvm.record.decode("{}")
    with pytest.raises(tw.TilewrightError, match="TW0633: there is no log"):
        autotvm.apply_history_best(str(tmp_path / "none.log"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        autotvm.record.pick_best(log, tmp_path / "best.log")
    assert (tmp_path / "best.log").read_text() == good + "\n"


def test_what_was_not_tuned_takes_first_choices_and_says_so(tmp_path: Path) -> None:
    with (
        pytest.warns(
            tw.PerformanceWarning, match=r"no record for target=llvm, workload=\('test/matmul', 3, 5, 7, 'float32'\)"
        ),
        tvm.target.Target("llvm"),
    ):
        s, args = matmul(3, 5, 7, "float32")
    check_matmul(s, args)
    task = autotvm.task.create("test/matmul", args=(8, 8, 8, "float32"), target="llvm")
    with autotvm.task.ApplyConfig(task.config_space.get(3)):
        s, args = matmul(8, 8, 8, "float32")
    assert "i.inner in 8" in str(tvm.lower(s, args))


@pytest.mark.parametrize("kind", ["GridSearchTuner", "XGBTuner"])
def test_tuners_measure_nothing_twice_and_stop_at_the_end_of_the_space(kind: str) -> None:
    task = autotvm.task.create("test/matmul", args=(4, 3, 2, "float32"), target="llvm")
    tried: list[int] = []
    tuner = getattr(autotvm.tuner, kind)(task)
    tuner.tune(
        n_trial=100,
        measure_option=OPTION,
        callbacks=[lambda _, inputs, results: tried.extend(one.config.index for one in inputs)],
    )
    assert sorted(tried) == list(range(6))
    assert tuner.best_config.index in tried
    assert kind != "GridSearchTuner" or tried == list(range(6))


def test_configurations_that_cannot_be_scheduled_are_results_with_an_error(tmp_path: Path) -> None:
    @autotvm.template("test/refuses")
    def refuses(n):
        cfg = autotvm.get_config()
        cfg.define_knob("way", [0, 1, 2])
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1, name="B")
        s = te.create_schedule(B.op)
        if cfg["way"].val == 1:
            cfg.raise_error("way 1 is closed")
        if cfg["way"].val == 2:
            s[B].split(te.reduce_axis((0, 3)), 2)
        return s, [A, B]

    task = autotvm.task.create("test/refuses", args=(8,), target="llvm")
    found = []
    autotvm.tuner.GridSearchTuner(task).tune(3, OPTION, callbacks=[lambda _, inputs, results: found.extend(results)])
    refused = autotvm.MeasureErrorNo.INSTANTIATION_ERROR
    assert [one.error_no for one in found] == [0, refused, refused]
    assert found[1].costs == ("way 1 is closed",)
    with pytest.raises(autotvm.InstantiationError, match="way 1 is closed"):
        task.instantiate(task.config_space.get(1))


def test_spaces_number_their_configurations_and_filter_them() -> None:
    space = autotvm.ConfigSpace()
    loops = space.define_split("t", 12, policy="verbose", num_outputs=3, filter=lambda one: one.size[-1] >= 4)
    assert len(loops) == 3
    assert all(one.size[0] == -1 and one.size[2] >= 4 for one in space.space_map["t"])
    space.define_knob("k", ["a", "b"])
    a, b, c = (space.axis(one) for one in (2, 3, 4))
    space.define_reorder("order", [a, b, c], policy="interleave", spatial=[[a, b]], reduce=[[c]])
    assert {one.perm for one in space.space_map["order"]} == {(0, 1, 2), (0, 2, 1)}
    space.define_annotate("ann", [a, b], policy="try_unroll")
    every = [space.get(index) for index in range(space.range_length)]
    assert len({str(one) for one in every}) == len(space) == len(space.space_map["t"]) * 2 * 2 * 3
    assert all(space.index_of(space.knobs_of(one.index)) == one.index for one in every)
    for one in every:
        assert autotvm.ConfigEntity.from_json_dict(json.loads(json.dumps(one.to_json_dict()))) == one
    moved = autotvm.ConfigEntity(0, None, {part.name: every[7][part.name] for part in space.parts})
    assert space.find(moved) == 7
    moved["t"] = autotvm.task.space.SplitEntity((-1, 5, 5))
    assert space.find(moved) is None
    space.multi_filter(filter=lambda one: one["k"].val == "b" or one["t"].size[1] == 1)
    assert len(space) == sum(one["k"].val == "b" or one["t"].size[1] == 1 for one in every)
    with pytest.raises(IndexError, match="out of range"):
        space.get(space.range_length)
    with pytest.raises(tw.TilewrightError, match="TW0606: the configuration has no part 'other'"):
        every[0]["other"]
    fallback = autotvm.FallbackConfigEntity()
    fallback.define_split("t", 24, num_outputs=3)
    fallback.fallback_split("t", [-1, 4, 3])
    assert fallback["t"].size == (2, 4, 3), "the outer loop is what the inner ones leave"
    with pytest.raises(tw.TilewrightError, match="TW0605: cannot choose a split"):
        fallback.fallback_split("t", [1, 2])


def test_the_convolution_of_the_tutorial_for_cpus(tmp_path: Path) -> None:
    @autotvm.template("test/conv2d_no_batching")
    def conv2d_no_batching(N, H, W, CO, CI, KH, KW, stride, padding):
        assert N == 1, "Only consider batch_size = 1 in this template"
        data = te.placeholder((N, CI, H, W), name="data")
        kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
        conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
        s = te.create_schedule([conv.op])
        n, f, y, x = s[conv].op.axis
        rc, ry, rx = s[conv].op.reduce_axis
        cfg = autotvm.get_config()
        cfg.define_split("tile_f", f, num_outputs=4)
        cfg.define_split("tile_y", y, num_outputs=2, filter=lambda one: one.size[-1] <= 4)
        cfg.define_split("tile_x", x, num_outputs=2)
        cfg.define_split("tile_rc", rc, num_outputs=2)
        cfg.define_annotate("ann", [ry, rx], policy="try_unroll")
        cfg.define_knob("auto_unroll_max_step", [0, 16])
        pad_data = s[conv].op.input_tensors[0]
        s[pad_data].compute_inline()
        bf, vf, tf, fi = cfg["tile_f"].apply(s, conv, f)
        by, yi = cfg["tile_y"].apply(s, conv, y)
        bx, xi = cfg["tile_x"].apply(s, conv, x)
        rco, rci = cfg["tile_rc"].apply(s, conv, rc)
        s[conv].reorder(n, bf, by, bx, vf, tf, rco, rci, ry, rx, fi, yi, xi)
        cfg["ann"].apply(s, conv, [ry, rx], axis_lens=[KH, KW], max_unroll=16, cfg=cfg)
        s[conv].pragma(bf, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
        return s, [data, kernel, conv]

    N, H, W, CO, CI, KH, KW, strides, padding = 1, 7, 7, 8, 4, 3, 3, (1, 1), (1, 1)
    task = autotvm.task.create(
        "test/conv2d_no_batching", args=(N, H, W, CO, CI, KH, KW, strides, padding), target="llvm"
    )
    log = str(tmp_path / "conv2d.log")
    autotvm.tuner.GATuner(task).tune(n_trial=3, measure_option=OPTION, callbacks=[autotvm.callback.log_to_file(log)])
    context = autotvm.apply_history_best(log)
    assert context.query(task.target, task.workload).index < len(task.config_space)
    with context, tvm.target.Target("llvm"):
        s, args = conv2d_no_batching(N, H, W, CO, CI, KH, KW, strides, padding)
        func = tvm.build(s, args)
    a = np.random.uniform(size=(N, CI, H, W)).astype(np.float32)
    w = np.random.uniform(size=(CO, CI, KH, KW)).astype(np.float32)
    wanted = topi.testing.conv2d_nchw_python(a, w, strides, padding)
    c = tvm.nd.empty(wanted.shape)
    func(tvm.nd.array(a), tvm.nd.array(w), c)
    tvm.testing.assert_allclose(c.numpy(), wanted, rtol=1e-2)


def test_operators_registered_apart_find_the_configuration_of_their_computation() -> None:
    @autotvm.register_topi_compute("test/twice.cpu")
    def twice(cfg, data):
        cfg.define_knob("width", [1, 4, 8])
        return te.compute(data.shape, lambda *i: data(*i) * 2, name="twice")

    @autotvm.register_topi_schedule("test/twice.cpu")
    def schedule_twice(cfg, outs):
        s = te.create_schedule([one.op for one in outs])
        s[outs[0]].split(outs[0].op.axis[0], cfg["width"].val)
        return s

    data = te.placeholder((32,), name="data")
    task = autotvm.task.create("test/twice.cpu", args=(data,), target="llvm")
    assert task.workload == ("test/twice.cpu", ("TENSOR", (32,), "float32"))
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(2))
    best = autotvm.apply_history_best([(inp, autotvm.MeasureResult((1e-3,), 0, 0.1, 1.0))])
    with best, tvm.target.Target("llvm"):
        out = twice(data)
        final = te.compute(out.shape, lambda i: out[i] + 1, name="final")
        s = schedule_twice([out])
    assert "in 8" in str(tvm.lower(s, [data, out]))
    assert autotvm.task.get_workload([final]) == task.workload
    with pytest.raises(tw.TilewrightError, match=r"TW0607: cannot schedule by 'test/twice\.cpu'"):
        schedule_twice([te.compute((3,), lambda i: i, name="other")])


def test_options_and_tasks_that_are_none_are_refused() -> None:
    with pytest.raises(tw.TilewrightError, match="TW0604: cannot measure on another machine"):
        autotvm.RPCRunner("key", "0.0.0.0", 9190)
    with pytest.raises(tw.TilewrightError, match="TW0604: 'rpc' is not a runner"):
        autotvm.measure_option(builder="local", runner="rpc")
    with pytest.raises(tw.TilewrightError, match="TW0601: there is no template 'test/none'"):
        autotvm.task.create("test/none", args=(), target="llvm")
    with pytest.raises(tw.TilewrightError, match="TW0601: there is no workload"):
        auto_scheduler.SearchTask(func=matmul, args=(1, 1, 1), target="llvm")
    with pytest.raises(tw.TilewrightError, match="TW0607: there is a workload 'matmul_add' already"):
        auto_scheduler.register_workload("matmul_add")(check_matmul)
    task = autotvm.task.create("test/matmul", args=(4, 4, 4, "float32"), target="cuda")
    assert len(task.config_space) == 9
    interpreted = autotvm.task.create("test/matmul", args=(4, 4, 4, "float32"), target="interpret")
    with pytest.raises(tw.TilewrightError, match="TW0603: cannot tune for target 'interpret'"):
        autotvm.tuner.RandomTuner(interpreted).tune(1, OPTION)


@auto_scheduler.register_workload
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute(
        (N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul", attrs={"layout_free_placeholders": [B]}
    )
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


def test_the_auto_scheduler_tutorial_searches_logs_applies_and_resumes(tmp_path: Path) -> None:
    target = tvm.target.Target("llvm")
    task = tvm.auto_scheduler.SearchTask(func=matmul_add, args=(16, 24, 32, "float32"), target=target)
    assert "matmul(i, j) += A[i, k] * B[k, j]" in str(task.compute_dag)
    assert task.compute_dag.flop_ct == 2 * 16 * 24 * 32 + 16 * 32
    log = str(tmp_path / "matmul.json")
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=1,
            measure_callbacks=[auto_scheduler.RecordToFile(log)],
            verbose=0,
            runner=auto_scheduler.LocalRunner(min_repeat_ms=0),
            builder=auto_scheduler.LocalBuilder(n_parallel=1),
        )
    )
    sch, args = task.apply_best(log)
    assert [one.name for one in args] == ["A", "B", "C", "out"]
    func = tvm.build(sch, args, target)
    a, b, c = (np.random.uniform(size=shape).astype(np.float32) for shape in ((16, 24), (24, 32), (16, 32)))
    out = tvm.nd.empty(c.shape, device=tvm.cpu())
    func(tvm.nd.array(a), tvm.nd.array(b), tvm.nd.array(c), out)
    np.testing.assert_allclose(out.numpy(), a.dot(b) + c, rtol=1e-3)
    assert task.print_best(log).startswith("s = te.create_schedule")

    with Path(log).open("a") as file:
        file.write('{"broken\n')
    model = auto_scheduler.XGBModel()
    model.update_from_file(log)
    policy = auto_scheduler.SketchPolicy(task, model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)])
    one_more = auto_scheduler.TuningOptions(
        num_measure_trials=1, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0
    )
    with pytest.warns(tw.TilewrightWarning, match="is not a record and is left out"):
        task.tune(one_more, search_policy=policy)
    uids = {json.loads(line)["uid"] for line in Path(log).read_text().splitlines() if line != '{"broken'}
    assert len(uids) == 2
    other = auto_scheduler.SearchTask(func="matmul_add", args=(16, 24, 31, "float32"), target=target)
    with (
        pytest.warns(tw.TilewrightWarning, match=r"is not a record"),
        pytest.raises(tw.TilewrightError, match="TW0633"),
    ):
        other.apply_best(log)
    with pytest.raises(tw.TilewrightError, match="TW0633: there is no log"):
        other.apply_best(tmp_path / "none.json")


def test_a_search_ends_after_trials_without_a_better_one() -> None:
    A = te.placeholder((4,), name="A")
    task = autotune.Task.of([A, te.compute((4,), lambda i: A[i] + 1, name="B")])
    lines: list[str] = []
    with auto_scheduler.measure_record.Recording(lines.append, early_stopping=2) as records:
        for seconds in (3.0, 4.0, 2.0, 2.5):
            records.add(task.key, task.name, autotune.Trial("[]", seconds))
        with pytest.raises(auto_scheduler.measure_record.EarlyStop, match="2 trials without a better one"):
            records.add(task.key, task.name, autotune.Trial("[]", None, failure="crash"))
        assert len(records.trials(task.key)) == len(lines) == 5


def test_entry_points_that_are_not_here_say_what_stands_in_their_place() -> None:
    with pytest.raises(AttributeError, match="'LocalRPCMeasureContext'; candidates are measured on this machine"):
        _ = auto_scheduler.LocalRPCMeasureContext
    with pytest.raises(AttributeError, match=r"'tophub'; topi\.schedule"):
        _ = autotvm.tophub
    with pytest.raises(tw.TilewrightError, match=r"TW0604(.|\n)*auto_scheduler\.RecordToFile"):
        auto_scheduler.TuningOptions(measure_callbacks=[print])


def test_buffers_stand_for_arguments() -> None:
    n = te.var("n")
    A = te.placeholder((n, 8), name="A")
    B = te.compute((n, 8), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    Ab = tvm.tir.decl_buffer((n, 8), A.dtype, name="Ab", strides=[8, 1])
    Bb = tvm.tir.decl_buffer(B.shape, B.dtype, name="Bb", data_alignment=64, offset_factor=1)
    for args in ([A, B], [Ab, Bb]):
        assert "Bb[i, j] = Ab[i, j] * 2.0" in str(tvm.lower(s, args, binds={A: Ab, B: Bb}))
    func = tvm.build(s, [A, B], "llvm", name="twice", binds={A: Ab, B: Bb})
    b = tvm.nd.empty((3, 8))
    func(tvm.nd.array(np.ones((3, 8), "float32")), b)
    assert b.numpy().sum() == 48


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({"shape": (5, 7)}, r"the buffer is float32\[5, 7\], and the tensor float32\[5, 8\]"),
        ({"dtype": "int32"}, r"the buffer is int32\[5, 8\]"),
        ({"strides": [16, 1]}, "its stride of 16 is not the 8"),
        ({"elem_offset": 4}, "it begins 4 elements"),
        ({"scope": "shared"}, "its scope is 'shared'"),
        (None, "the buffer stands for B already"),
    ],
)
def test_buffers_that_arguments_cannot_be_are_refused(declared, reason: str) -> None:
    A = te.placeholder((5, 8), name="A")
    B = te.compute((5, 8), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    whole = tvm.tir.decl_buffer((5, 8), name="whole")
    binds = {
        B: whole,
        A: whole if declared is None else tvm.tir.decl_buffer(**{"shape": (5, 8), "name": "x", **declared}),
    }
    for make in (tvm.lower, tvm.build):
        with pytest.raises(tw.TilewrightError, match=rf"TW0420: cannot bind A to (.|\n)*{reason}"):
            make(s, [A, B], binds=binds)
    with pytest.raises(tw.TilewrightError, match="TW0420: cannot bind the arguments of a lowered function"):
        tvm.build(tvm.lower(s, [A, B]), binds=binds)
