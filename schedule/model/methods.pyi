# Written by docs/make_primitives.py from the rows of schedule/primitives/.
from collections.abc import Callable, Sequence
from typing import Any, overload

from ...ir import Expr, IterVar
from ...te.operation import Operation
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from .group import Group
from .stage import Stage

__all__ = ["GroupPrimitives", "SchedulePrimitives", "StagePrimitives"]

class StagePrimitives:
    def contract(self, axis: IterVar) -> None:
        """Keep of memory that a script's loop fills row by row the rows that are needed at once.

            b: float32[n, m]                         b: float32[2, m]                               # contract(i)
            for i in n:                              for i in n:
                for k in m: b[i, k] = f(a[i, k])         for k in m: b[i % 2, k] = f(a[i, k])
                if i >= 1:                       →       if i >= 1:
                    for k in m:                              for k in m:
                        c[i, k] = b[i, k] - b[i - 1, k]          c[i, k] = b[i % 2, k] - b[(i - 1) % 2, k]

        axis: a serial loop that a hybrid script declares, before loops of it are scheduled, around all that touches some memory of
        the script. One dimension of that is indexed by the loop's variable but for numbers, and no element is read before it is stored
        to. A row that one iteration alone touches becomes memory of the iteration. No bit changes.

        Raises HybridLoopsApart (TW0281), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
        """

    def fission(self, axis: IterVar) -> tuple[IterVar, ...]:
        """Make of a script's loop around several statements several loops after each other.

            for j in n:                              for j in n:                       # fission(j)
                c[j] = 0                                 c[j] = 0
                for k in m:                   →      for j.1 in n:
                    c[j] += A[k] * B[k, j]               for k in m:
                                                             c[j.1] += A[k] * B[k, j.1]

        axis: a serial loop that a hybrid script declares around statements after each other, before loops of it are scheduled. It is
        cut wherever no statement behind touches in an iteration what one before touches in a later one, one of them storing to it.
        Memory of an iteration that several parts touch becomes memory of all iterations.
        Returns the loops' axes, in their order. No bit changes.

        Raises HybridLoopsApart (TW0281), HybridLoopCarries (TW0280), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
        """

    def fuse(self, *axes: IterVar) -> IterVar:
        """Make one loop of loops directly inside each other, in their order; of none, a new outermost loop that runs once.

            for i in 6:
                for j in 4:       →      for i.j.fused in 24:
                    ...                      ... at i = i.j.fused // 4, j = i.j.fused % 4

        axes: loops of the stage; as in TVM the first two may be given in either order. A loop over data and reduce axes at once
        is a reduce loop. Returns the loop, which counts in 64 bits where the extents are not known to fit 32.

        Raises FuseApart (TW0208), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), AnnotationWouldBeLost
        (TW0213), HybridLoopsApart (TW0281).
        """

    def merge(self, axis: IterVar) -> IterVar:
        """Make one loop of a script's loop and the one directly behind it.

            for i in n:                              for t in n + 1:                                # merge(i)
                for k in m: b[i, k] = f(a[i, k])         if t < n:
            for i.1 in n - 1:                 →              for k in m: b[t, k] = f(a[t, k])
                for k in m:                              if t >= 1 and t < n:
                    c[i.1, k] = b[i.1 + 1, k]                for k in m: c[t - 1, k] = b[t, k]

        axis: a serial loop that a hybrid script declares, before loops of it are scheduled. The loop behind it has bounds that lie numbers
        apart from its own, and lags as many iterations as what it takes from the first one needs. Returns the axis. No bit changes.

        Raises HybridLoopsApart (TW0281), HybridLoopCarries (TW0280), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
        """

    def reorder(self, *axes: IterVar) -> None:
        """Permute the listed loops among the places that they hold; the others stay where they are.

            for i in 6:                  for k in 8:                          # reorder(k, i)
                for j in 4:      →           for j in 4:
                    for k in 8: ...              for i in 6: ...

        axes: loops of the stage, each once, in the order that they are to have. Of a scan, loops over time change places where each
        step still follows those that it reads.

        Raises BadReorder (TW0207), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), ScanLoopsStay
        (TW0261), HybridLoopsApart (TW0281), HybridLoopCarries (TW0280).
        """

    def rotate(self, axis: IterVar, by: IterVar, factor: int = 1) -> IterVar:
        """Let the loop `axis` begin `factor` iterations later for each iteration of the loop `by`, and go around.

            for i in 4:                  for i in 4:                          # rotate(j, i)
                for j in 4:      →           for j.rotated in 4:
                    C[i, j] = ...                C[i, (j.rotated + i) % 4] = ...

        An element is computed from the same values as before; the terms of a sum whose reduce axis is rotated come in another order.
        For vectors of elements side by side, split first and rotate the outer loop.

        Parameters
        ----------
        axis : IterVar
            A loop of the stage.
        by : IterVar
            Another loop of it, inside or outside: a data axis is rotated by a loop over data, a reduce axis by any.
        factor : int, default 1
            Not 0, in iterations of `axis`.

        Returns
        -------
        IterVar
            The loop that stands in place of `axis`, of the same extent and dtype, named "j.rotated".

        Raises
        ------
        BadSkew (TW0225)
            Neither loop can begin elsewhere in each iteration of the other.
        AxisIsNoLoop (TW0205)
            A loop was split or fused.
        NotAnAxisOfStage (TW0202)
            An axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        AnnotationWouldBeLost (TW0213)
            The loop is annotated.
        ScanLoopsStay (TW0261), HybridLoopsApart (TW0281), HybridLoopCarries (TW0280)
            Steps of the scan, or statements of the script, would run in another order.
        """

    def sink(self, axis: IterVar) -> tuple[IterVar, IterVar]:
        """Exchange the loops of a script's triangle, with what stands behind the inner one.

            for j in n:                                     for k in n:                                    # sink(j)
                for k in j:                                     a[i, k] = a[i, k] / a[k, k]
                    a[i, j] -= a[i, k] * a[k, j]      →         for j in n - 1 - k:
                a[i, j] = a[i, j] / a[j, j]                         a[i, k + 1 + j] -= a[i, k] * a[k, k + 1 + j]

        axis: a serial loop that a hybrid script declares, before loops of it are scheduled. The first statement in it is a loop of as many
        iterations as the loop's variable says, and each step of that one takes from what stood behind earlier ones alone. Returns the outer
        axis and the inner one. No bit changes.

        Raises HybridLoopsApart (TW0281), HybridLoopCarries (TW0280), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
        """

    def skew(self, axis: IterVar, by: IterVar, slope: int = 1) -> IterVar:
        """Let the loop `axis` run over a parallelogram: `slope` iterations later in each iteration of the loop `by`.

            for i in 64:                     for i in 64:                               # skew(j, i)
                for j in 64:         →           for j.skewed in 127:
                    h[i, j] = ...                    if 0 <= j.skewed - i < 64:
                                                         h[i, j.skewed - i] = ...

        By itself it keeps the order of iterations. Then a distance between them that goes on in both loops goes on in `j.skewed` alone, so
        that with `j.skewed` outside (reorder) iterations of `i` are independent, a wavefront, and a distance that goes back in `j` allows
        tiles. `rotate` goes around instead. The update of a scan is skewed by its first axis, time, where it is computed for a tile of
        steps: `outer, _ = s[S].split(time, 8)`, `s[update].compute_at(s[S], outer)`, `s[update].skew(x, t)`.

        Parameters
        ----------
        axis : IterVar
            A loop of the stage over data.
        by : IterVar
            Another one, of a script directly inside or outside. The extents of both do not change with other loops.
        slope : int, default 1
            Not 0, in iterations of `axis`.

        Returns
        -------
        IterVar
            The loop that stands in place of `axis`, named "j.skewed".

        Raises
        ------
        BadSkew (TW0225)
            Neither loop can begin elsewhere in each iteration of the other.
        AxisIsNoLoop (TW0205)
            A loop was split or fused.
        NotAnAxisOfStage (TW0202)
            An axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        AnnotationWouldBeLost (TW0213)
            The loop is annotated.
        ScanLoopsStay (TW0261), HybridLoopsApart (TW0281), HybridLoopCarries (TW0280)
            Steps of the scan, or statements of the script, would run in another order.
        """

    def split(
        self, parent: IterVar, factor: int | Expr | None = None, nparts: int | Expr | None = None, disable_predication: bool =
        False,
    ) -> tuple[IterVar, IterVar]:
        """Make two loops of one: (outer, inner), inner of `factor` iterations or outer of `nparts`.

            for i in 10:                 for i.outer in 3:                    # factor=4
                ...              →           for i.inner in 4:
                                                 if i.outer * 4 + i.inner < 10: ...

        A loop that is annotated is not split, since the annotation would be lost: split first.

        Parameters
        ----------
        parent : IterVar
            A loop of the stage.
        factor : int, Expr or None, default None
            Iterations of the inner loop: positive, or an expression over symbols of shapes.
        nparts : int, Expr or None, default None
            Iterations of the outer loop, instead of `factor`.
        disable_predication : bool, default False
            Whether to leave out the guard of the tail that an extent which does not divide leaves. A call at which there is a tail is
            refused (TW0518), unless a store predicate guards it.

        Returns
        -------
        tuple of IterVar
            The outer loop and the inner one.

        Raises
        ------
        BadSplit (TW0206)
            Not exactly one of `factor` and `nparts` is a positive integer.
        AxisIsNoLoop (TW0205)
            The loop was split or fused.
        NotAnAxisOfStage (TW0202)
            The axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        AnnotationWouldBeLost (TW0213)
            The loop is annotated.
        """

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: int | Expr, y_factor: int | Expr,
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split both loops and order them (x_outer, y_outer, x_inner, y_inner).

            for x in 64:                 for x.outer in 8:                    # x_factor=8, y_factor=4
                for y in 64:                 for y.outer in 16:
                    ...          →               for x.inner in 8:
                                                     for y.inner in 4: ...

        Parameters
        ----------
        x_parent : IterVar
            A loop of the stage.
        y_parent : IterVar
            Another loop of it.
        x_factor : int or Expr
            Iterations of x that a block has: positive, or an expression over symbols of shapes.
        y_factor : int or Expr
            Iterations of y that a block has.

        Returns
        -------
        tuple of IterVar
            The four loops, in their order.

        Raises
        ------
        ScheduleError
            What split and reorder raise.
        """

    def parallel(self, axis: IterVar, independent: bool = False) -> None:
        """Share the iterations among threads. Like vectorize, unroll and bind it replaces the kind given before.

            for i in 64:      →      parallel for i in 64:
                ...                      ...

        axis: a loop of the stage, over data alone. A loop whose extents are constants and whose work takes less time than
        waking a thread runs serially all the same. independent: your word that iterations of a script's loop touch no element in
        common where that cannot be proved, as those that write by a permutation; `s.verify()` looks for some that do.

        Raises ParallelReduction (TW0204), NestedParallel (TW0209), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
        (TW0222), ScanLoopsStay (TW0261), HybridLoopCarries (TW0280).
        """

    def pragma(self, axis: IterVar, pragma_type: str, pragma_value: int | str | None = None) -> None:
        """Say something to the passes about a loop. A key that was set before takes the new value.

            for i in 3:       →      C[0] = A[0]               # pragma(i, "unroll_explicit", True)
                C[i] = A[i]          C[1] = A[1]
                                     C[2] = A[2]

        - auto_unroll_max_step: the number of statements up to which loops below are unrolled.
        - unroll_explicit: unroll here rather than leave it to LLVM (0 or 1).
        - import_llvm: LLVM IR as text that defines functions which the program calls, whatever the loop; import_c: the same in C.
        - debug_skip_region: the loop is left out, with all that it holds.
        - parallel_stride_pattern: of a parallel loop; neighbouring iterations go to different tasks.
        - parallel_launch_point: of a loop around a parallel one; the threads are launched here, once, where iterations are shown
          not to depend on each other.
        - parallel_barrier_when_finish: of a parallel loop within such a one; all threads finish it before anything goes on, so that
          iterations around it may depend on each other.
        - loop_partition_hint: the loop is cut where the guards of values in it end, those of te.if_then_else, so that most iterations
          have none: windows over padded images. Other loops are cut where te.likely, or lanes, ask for it.
        - nontemporal_store: vectorized loops from here down store past the caches, where CPUs can: for large results that are not
          read soon; a hint, for loops whose lanes store side by side to one tensor.
        - resident_blocks: of a loop around blocks along x alone; all iterations of both loops are parts of the work, which as many blocks
          as the GPU at hand holds take one after the other, in whole clusters. They are not to depend on each other.
        - bulk_store: of the outermost of loops that copy from shared memory to a tensor, element by element and bound to nothing; the copy
          engine of sm_90a stores boxes instead. The memory is "shared", or "swizzled", of which four warps store their sums by rows.
        - flush_powers: te.exp2 of float32 within the loop may be 0 where it is below 2**-126, and a product in its exponent is not rounded
          by itself, which GPUs compute in fewer instructions.
        - accumulate_parts: of the loop over the chunks that s.online merges, with tensor cores; weights of a chunk are taken from the
          largest score so far, and what these multiply is added to the sums where they lie, instead of merged with them.
        - reassociate: of the innermost loop of a script; what it adds up is added in any order, by the lanes of vectors where CPUs have
          them (OpenMP's reduction of a simd loop).
        - unroll_and_jam: of a script's loop around loops; four iterations share a pass of these, in registers, where none of them touches
          what another one does out of its turn. No bit changes.

        Parameters
        ----------
        axis : IterVar
            A loop of the stage.
        pragma_type : str
            One of the above.
        pragma_value : int, bool, str or None, default None
            A number of statements, 0 or 1, or a text, as said above; from debug_skip_region on none, a bool or an integer.

        Raises
        ------
        UnknownPragma (TW0214)
            No pass reads it, or not with this value.
        AxisIsNoLoop (TW0205)
            The loop was split or fused.
        NotAnAxisOfStage (TW0202)
            The axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        """

    def unroll(self, axis: IterVar) -> None:
        """Write the iterations out. Like parallel, vectorize and bind it replaces the kind given before.

            for i in 3:       →      C[0] = A[0]
                C[i] = A[i]          C[1] = A[1]
                                     C[2] = A[2]

        axis: a loop of the stage. That its extent is a constant is looked at when the schedule is lowered.

        Raises AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), ScanLoopsStay (TW0261).
        """

    def vectorize(self, axis: IterVar) -> None:
        """Run the iterations in vector lanes. Like parallel, unroll and bind it replaces the kind given before.

            for i in 8:                  →      C[0:8] = A[0:8] + B[0:8]
                C[i] = A[i] + B[i]

        axis: a loop of the stage, over data alone, of any constant extent: one that is longer than the machine's vectors is
        cut into several, and an odd one is masked. That the extent is constant is looked at when the schedule is lowered. Lanes
        that leave a loop of a script early wait for the last of them, which is warned of.

        Raises VectorizeReduction (TW0203), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), ScanLoopsStay
        (TW0261), HybridLoopCarries (TW0280).
        """

    def bind(self, axis: IterVar, thread_axis: IterVar) -> None:
        """Run the iterations on a thread axis. Like parallel, vectorize and unroll it replaces the kind given before.

            for i in 64:                        blockIdx.x in 64:
                for j in 32: ...      →             threadIdx.x in 32: ...

        axis: a loop of the stage that counts from 0; over a reduce axis only to threadIdx, which then joins the parts. thread_axis:
        te.thread_axis("blockIdx.x"), "threadIdx.y", "vthread" (a virtual thread: interleaved work of one thread), with or without
        an extent. Whether all loops on one thread axis have one extent is looked at when the schedule is lowered.

        Raises BadThreadBinding (TW0211), ThreadBoundTwice (TW0212), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
        (TW0222), ScanLoopsStay (TW0261), HybridLoopCarries (TW0280), UnsplitReduction (TW0234).
        """

    def env_threads(self, threads: Sequence[IterVar] | IterVar) -> None:
        """Put thread axes around a scan's loop over time, so that all steps run in one kernel.

            for t in 100:                      threadIdx.x in 256:            # s[scan].env_threads([threadIdx.x])
                for i in 256: ...      →           for t in 100:
                                                       ...                    # loops bound to threadIdx.x share the work

        threads: thread axes whose extents are declared, te.thread_axis((0, 256), "threadIdx.x"), or one of them; each tag once.
        Loops of the scan's updates that are bound to the same tags share the work among these threads.

        Raises BadEnvThreads (TW0260).
        """

    def tensorize(self, axis: IterVar, intrinsic: TensorIntrin) -> None:
        """Let a tensor intrinsic do the work of this loop and of all inside it.

            for i in 4:                            for i in 4:
              for j in 16:            →              gemv(C[i * 16 : i * 16 + 16], A, B)
                for k in 64:
                  C[i * 16 + j] += ...

        axis: a loop of the stage. intrinsic: what te.decl_tensor_intrin or te.intrinsics.get returned. Whether it computes what
        the loops do is decided when the schedule is lowered, once their ranges are known.

        Raises BadTensorize (TW0240), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), NotOfHybridStages
        (TW0282).
        """

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute what one iteration of the loop `scope` of `parent` needs, within that iteration.

            for i in 64:                       for i in 64:
                B[i] = A[i] + 1                    B: float32[1]
            for i in 64:               →           B[0] = A[i] + 1
                C[i] = B[i] * 2                    C[i] = B[0] * 2

        parent: a stage, s[C], that reads this one, directly or through others. scope: a loop of it; where that is split later,
        the place is in the inner loop, where it is fused, in the fused one. Every stage that reads this one has to lie within
        that loop, which is looked at when the schedule is lowered.

        Raises CannotAttach (TW0215), NestedParallel (TW0209), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
        (TW0222), NotOfHybridStages (TW0282).
        """

    def compute_inline(self) -> None:
        """Put its expression wherever it is read.

            for i in 64:                       for i in 64:
                B[i] = A[i] + 1        →           C[i] = (A[i] + 1) * 2
            for i in 64:
                C[i] = B[i] * 2

        The stage computes one tensor, element by element, without a reduction, and is not an output.

        Raises CannotInline (TW0210).
        """

    def compute_root(self) -> None:
        """Compute all of it before the stages that read it: where every stage is to begin with.

            for i in 64:                       for i in 64:
                B: float32[1]                      B[i] = A[i] + 1
                B[0] = A[i] + 1        →       for i in 64:
                C[i] = B[0] * 2                    C[i] = B[i] * 2

        Of a member of a group, that is the root of the group.
        """

    def compute_with(self, other: Stage, axis: IterVar) -> None:
        """Compute the stage in the loops of another, from the outermost to `axis`, so that what both read is read once.

            for i in 64:                           for i in 64:                          # s[C].compute_with(s[B], k)
                B[i] = 0                               C[i] = 0
                for k in 32: B[i] += A[i, k]           B[i] = 0
            for i in 64:                       →       for k in 32:
                C[i] = 0                                   B[i] += A[i, k]
                for k in 32: C[i] += A[i, k] ** 2          C[i] += A[i, k] ** 2

        other: a stage, s[B]; neither may read the other, directly or through other stages. axis: a loop of it; where that is split
        later, it is the inner one, where it is fused, the fused one. The stage is computed wherever `other` is, after it in each
        iteration; its own loops in these places become the shared ones. They run as those of `other` do (in parallel, in lanes, on
        threads) and equally often, which is looked at when the schedule is lowered (LoopsNotShared, TW0342): where extents differ,
        split both by one factor, and what is left over is guarded. Stages that both read can be computed at a shared loop of
        `other`. No bit of any result changes.

        Raises CannotComputeWith (TW0229), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), AnnotationWouldBeLost (TW0213),
        WrongArgument (TW0222).
        """

    def double_buffer(self) -> None:
        """Compute what an iteration of the loop that it is computed at needs one iteration ahead.

            for k in 4:                           B: float32[2, 8]
                B: float32[8]                     for i in 8: B[0, i] = A[i]
                for i in 8:                 →     for k in 4:
                    B[i] = A[k * 8 + i]               if k + 1 < 4:
                ... B[i] ...                              for i in 8: B[(k + 1) % 2, i] = A[(k + 1) * 8 + i]
                                                      ... B[k % 2, i] ...

        Its storage is twice as large: two halves take turns. Whether the loop allows that (a serial one, in which what is read
        does not change) is decided when the schedule is lowered.

        Raises BadOverlap (TW0252).
        """

    def mirror(self, axis: IterVar, other: IterVar) -> None:
        """Compute a tensor that is the same when two of its axes are exchanged on one side of its diagonal, and store it on both.

            for i in 64:                       for i in 64:                   # s[C].mirror(i, j)
                for j in 64:             →         for j in 64:
                    C[i, j] = ...                      if i >= j: C[i, j] = ...
                                                       if i > j: C[j, i] = ...

        axis, other: two data axes of one extent, of a stage that is no sum itself: a sum is computed in a cache (cache_write), of
        which the stage is a copy. That exchanging them changes no bit must show in the expression, or in those of what it reads:
        A[k, i] * A[k, j], |A[i] - A[j]|, a product of a matrix with itself. What an iteration of a loop computes (caches that
        are computed there too) is left out where `axis` is less than `other` in all of it; in tiles across the diagonal all is
        computed. The stage is computed at root, and all of it is read, which is looked at when the schedule is lowered
        (CannotMirror, TW0343). No bit of any result changes.

        Raises BadMirror (TW0232).
        """

    def pipeline(self, stages: int, by: str = 'cp.async', warp_specialize: bool = False, cluster: int = 1) -> None:
        """Begin what iterations of the loop that it is computed at need `stages` - 1 iterations ahead.

            for k in 9:                           S: shared float32[3, 8]                # s[S].pipeline(3)
                S: shared float32[8]              for f in 2:
                for i in 8:                 →         for i in 8: S[f, i] = A[f * 8 + i];  commit
                    S[i] = A[k * 8 + i]           for k in 9:
                ... S[i] ...                          wait for all groups but the last
                                                      if k + 2 < 9:
                                                          for i in 8: S[(k + 2) % 3, i] = A[(k + 2) * 8 + i]
                                                      commit
                                                      ... S[k % 3, i] ...

        On a GPU copies from global to shared memory are asynchronous. Whether the loop allows that (a serial one, in which what is read
        does not change) is decided when the schedule is lowered; all pipelines at one loop have as many stages.

        Parameters
        ----------
        stages : int
            Places that take turns, from 2 to 16: the storage is so many times as large.
        by : str, default "cp.async"
            "cp.async", where each thread copies what its loops say, or "tma", where the copy engine copies boxes of up to five dimensions
            (sm_90a; elsewhere the loops run as they stand): the stage's loops stay as they are declared, not split, fused or bound, and it
            is a copy, with zeros outside, of a tensor whose rows begin at multiples of 16 bytes. What is no such copy is refused when the
            program is built (TW0841).
        warp_specialize : bool, default False
            Whether four more warps ask the copy engine, as far ahead as there are places, while those that are bound compute and tell
            which places are free again. All pipelines of a kernel do, or none (TW0841); for by="tma".
        cluster : int, default 1
            Blocks (1, 2, 4 or 8), neighbours along blockIdx.x, that copy together: a box that is the same for all of them comes once, each
            of them asks for a part of it, for all (multicast). What these blocks do around the copies is the same, and the grid has whole
            clusters along x (else TW0841); for warp_specialize.

        Raises
        ------
        BadOverlap (TW0252)
            The stage is not computed at a loop of another, or its iterations share its storage already.
        """

    def prefetch(self, tensor: Tensor, axis: IterVar, offset: int, around: bool = False, level: int = 1, share: int = 0) -> None:
        """Ask the cache, at each iteration of the loop `axis`, for what the iteration `offset` further on reads of `tensor`.

            for i in 64:                       for i in 64:                   # prefetch(A, i, 1)
                for j in 32:                       for line in 2:
                    C[i, j] = A[i, j]      →           if i + 1 < 64: prefetch(&A[i + 1, line * 16])
                                                   for j in 32:
                                                       C[i, j] = A[i, j]

        A hint, which means nothing to what is computed, and which targets other than CPUs leave out.

        Parameters
        ----------
        tensor : Tensor
            One that the stage reads.
        axis : IterVar
            A loop of the stage.
        offset : int
            In iterations.
        around : bool, default False
            Whether to ask for what this iteration reads when the loop that the stage is computed at is `offset` iterations further on.
        level : int, default 1
            1 asks the first cache; 2 the second one, for streams from memory: where a row ends, for the one that follows it.
        share : int, default 0
            Asks for what the loop that many loops out reads in its iteration `offset` further on, 1 being the loop at which this stage is
            computed: each step asks for its share of the cache lines, so that these come evenly while the stage computes. It is for what
            is read many times in an iteration and lies together in memory; nothing is asked for otherwise.

        Raises
        ------
        BadPrefetch (TW0251)
            The stage does not read the tensor, or a number is not to be.
        AxisIsNoLoop (TW0205)
            The loop was split or fused.
        NotAnAxisOfStage (TW0202)
            The axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        UnknownStage (TW0201)
            The schedule has no such tensor.
        NotOfHybridStages (TW0282)
            The stage is a hybrid script.
        """

    def rolling_buffer(self, strict: bool = True) -> None:
        """Use again what the last iteration of the loop that it is computed at computed, and compute the rest.

            for y in 6:                           B: float32[3, 8]
                B: float32[3, 8]                  for y in 6:
                for r in 3:                           for r in 3:
                    for x in 8:             →             for x in 8:
                        B[r, x] = A[y + r, x]                 if y == 0 or r >= 2: B[(y + r) % 3, x] = A[y + r, x]
                ... B[r, x] ...                       ... B[(y + r) % 3, x] ...

        What is read must move by constant steps that are smaller than its extent, which is decided when the schedule is lowered.
        strict: whether it is refused there otherwise (CannotRoll, TW0352); else all is computed in each iteration.

        Raises BadOverlap (TW0252).
        """

    def set_scope(self, scope: str) -> None:
        """Keep its results in the memory `scope`.

            B: float32[64]          →      B: float32[64], shared             # set_scope("shared")

        scope: "global", "shared" (of a block of threads), "local" (of one thread) or "warp"; "" for the default of its place:
        global without threads around, shared under blocks, local under threads. Outputs and placeholders are global. Registers that
        tensor cores read have scopes of their own ("mma_a", "wgmma_c", ...), and "swizzled" is shared memory in the order in which
        products of four warps read it: whole panels of 128 bytes by 8 rows.

        Raises UnknownScope (TW0216).
        """

    def set_store_predicate(self, predicate: Any) -> None:
        """Store results only where the condition holds.

            for i in 64:                       for i in 64:                   # set_store_predicate(i < n)
                C[i] = A[i]            →           if i < n: C[i] = A[i]

        predicate: a bool, or an expression of dtype bool over axes of the stage and thread axes that its loops run on.

        Raises BadStorePredicate (TW0218), NotOfHybridStages (TW0282).
        """

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Pad so that the stride of the dimension `axis` is `offset` modulo `factor`, in elements.

            B: float32[32, 32]      →      B: float32[32, 32], strides (33, 1)    # storage_align(i, 32, 1)

        Parameters
        ----------
        axis : IterVar
            A data axis of the operation, s[B].op.axis, of a stage that is not an output.
        factor : int
            In elements, 1 to 2^31 - 1.
        offset : int
            In elements.

        Raises
        ------
        BadStorageAlign (TW0217)
            The stride cannot be aligned so.
        NotAnAxisOfStage (TW0202)
            The axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        NotOfHybridStages (TW0282)
            The stage is a hybrid script.
        """

    def transform_layout(self, mapping_function: Callable[..., Any], pad_value: Any = None) -> list[IterVar] | None:
        """Lay the elements out as mapping_function says.

            for n in 2:                         for n in 2:       # transform_layout(lambda n, c: [n, c // 4, c % 4])
              for c in 6:                         for c.outer in 2:
                A[n, c] = ...            →          for c.inner in 4:
            B[n, c] = A[n, c] ...                     A[n, c.outer, c.inner] = ... if c.outer * 4 + c.inner < 6 else 0.0
                                                B[n, c] = A[n, c // 4, c % 4] ...

        mapping_function: takes the indices of an element and returns those of its place, `lambda n, c, h, w: [n, c // 4, h, w,
        c % 4]`, or with a swizzle `lambda i, j: [i, j // 8 ^ i % 8, j % 8]`; the tensor then has the shape that these span; where
        it is an argument, callers pass and get arrays of that shape. pad_value: of the tensor's dtype, or a list with one for each
        output; what stands where no element lies (a C of 6 in fours), or 0 where none is given: computed tensors are filled with
        it. Returns the loops of a stage that computes, one for each new dimension; a placeholder has none (None).

        Raises BadLayout (TW0253): where elements would share a place, or where the loops are scheduled already.
        """


class SchedulePrimitives:
    def cache_read(
        self, tensor: Tensor, scope: str, readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage] = (), reindex:
        bool = False,
    ) -> Tensor:
        """A copy of `tensor` in the memory `scope`, which `readers` read in its place.

            for i in 64:                       for i in 64:                   # cache_read(A, "local", [C])
                C[i] = A[i] * 2        →           A.local[i] = A[i]
                                               for i in 64:
                                                   C[i] = A.local[i] * 2

            for i in 62:                       for i in 62:                   # cache_read(A, "local", [C], reindex=True)
              for k in 3:                        for k in 3:
                C[i] += A[i + k] * W[k]  →         A.local[i, k] = A[i + k]
                                               for i in 62:
                                                 for k in 3:
                                                   C[i] += A.local[i, k] * W[k]

        The copy is a stage of its own, of which what is needed is computed where it is placed.

        Parameters
        ----------
        tensor : Tensor
            The tensor to copy.
        scope : str
            "global", "shared", "local", "warp" or "" (the default of its place).
        readers : Tensor, Operation, Stage or sequence of these, default ()
            Who reads the copy; all that read the tensor where none is given.
        reindex : bool, default False
            Whether the copy has a dimension for each axis of the one reader that its indices depend on, in the order of its axes, and
            holds what is read at each: windows side by side. Where the tensor is read at several places, it holds what is read at the
            first. A guarded read (`te.if_then_else(0 < i, A[i - 1], 0.0)`) is copied with its guard; other lazy reads are not.

        Returns
        -------
        Tensor
            The copy, "A.local", of the tensor's dtype, and of its shape unless it is reindexed.

        Raises
        ------
        BadCacheRead (TW0219)
            Nothing reads the tensor, or a reader does not.
        UnknownScope (TW0216)
            There is no such memory.
        UnknownStage (TW0201)
            The schedule has no such tensor or reader.
        """

    @overload
    def cache_write(self, tensor: Tensor, scope: str) -> Tensor:
        """Compute `tensor` into a cache in the memory `scope` first; its stage becomes a copy of the cache, with its loops anew.

            for i in 64:                       for i.c in 64:                 # cache_write(C, "local")
                C[i] = A[i] * 2        →           C.local[i.c] = A[i.c] * 2
                                               for i in 64:
                                                   C[i] = C.local[i]

        tensor: or a list of all outputs of one operation. scope: "global", "shared", "local", "warp" or "". Splits and reorders
        made before define the layout of the cache: a dimension for each loop over data, in their order; what was done to reduce
        axes moves to the cache. Stages attached at loops that vanish move to the cache's. Returns the cache, "C.local" for C in
        "local", of the same dtype, or a list for a list.

        Raises BadCacheWrite (TW0220), AnnotationWouldBeLost (TW0213), UnknownScope (TW0216), UnknownStage (TW0201),
        NotOfHybridStages (TW0282).
        """
    @overload
    def cache_write(self, tensor: Sequence[Tensor], scope: str) -> list[Tensor]:
        ...

    @overload
    def clone_in(self, tensor: Tensor, readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage]) -> Tensor:
        """A second stage, "B.clone", that computes `tensor` again; `readers` read it in its place.

            for i:  B[i] = f(A[i])                        for i:  B[i] = f(A[i])          # clone_in(B, [C])
            for i:  C[i] = B[i] + 1              →        for i:  B.clone[i] = f(A[i])
            for i:  D[i] = B[i] * 2                       for i:  C[i] = B.clone[i] + 1
                                                          for i:  D[i] = B[i] * 2

        tensor: or a list of all outputs of one operation; somebody else reads it, or it is an output. readers: a tensor,
        operation or stage that reads it, or a list of these. The clone has its loops as they are declared, and its own place:
        readers far apart can each have theirs near. Returns the clone, of the same shape and dtype (a list for a list).

        Raises BadClone (TW0254), UnknownStage (TW0201).
        """
    @overload
    def clone_in(
        self, tensor: Sequence[Tensor], readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage],
    ) -> list[Tensor]:
        ...

    def create_group(
        self, outputs: Tensor | Operation | Sequence[Tensor | Operation], inputs: Tensor | Operation | Sequence[Tensor | Operation],
        include_inputs: bool = False,
    ) -> Group:
        """A group of the stages on the ways from `inputs` to `outputs`, which its compute_at places together.

            for i in 64: B[i] = A[i] + 1       for i in 64:                   # s.create_group(C, A).compute_at(s[D], i)
            for i in 64: C[i] = B[i] * 2   →       B[0] = A[i] + 1
            for i in 64: D[i] = C[i] - 3           C[0] = B[0] * 2
                                                   D[i] = C[0] - 3

        Groups contain each other or have nothing in common.

        Parameters
        ----------
        outputs : Tensor, Operation or sequence of these
            The last stages, which belong to the group.
        inputs : Tensor, Operation or sequence of these
            The stages that the group begins behind.
        include_inputs : bool, default False
            Whether the inputs' stages belong to it; placeholders never do.

        Returns
        -------
        Group
            The group.

        Raises
        ------
        BadGroup (TW0250)
            The stages cannot be placed together.
        UnknownStage (TW0201)
            The schedule has no such tensor.
        """

    def distribute(self, tensor: Tensor) -> list[Tensor]:
        """Compute a sum of several terms by one sum for each of them.

            for i, j:  for k:                                      for i, j:  for k:            # distribute(C)
              C[i, j] += A[i, k] * B[j, k] + B[i, k] * A[j, k]  →      C.product0[i, j] += A[i, k] * B[j, k]
                                                                   for i, j:  C[i, j] = C.product0[i, j] + C.product0[j, i]

        tensor: a te.sum of terms that are added or subtracted, or of one of which factors or divisors do not depend on what is summed
        over, of constant extents, without where= and init=, of loops that are not scheduled yet; of floats, float32 or float64.
        Factors and divisors that do not depend on it leave the sum. Terms that are the same once two axes of the tensor are exchanged
        have one sum between them. Sums of whole numbers have the same bits; those of floats are added in another order.

        Returns the tensors that are new, in the order in which they are computed.

        Raises BadTerms (TW0266), UnknownStage (TW0201), WrongArgument (TW0222).
        """

    def factor(self, tensor: Tensor, path: Sequence[tuple[int, int]]) -> list[Tensor]:
        """Compute a sum of products of several factors by sums of products of two.

            for i, j:  for a, b:                            for a, j:  for b:                     # factor(C, [(1, 2), (0, 1)])
              C[i, j] += A[i, a] * B[a, b] * D[b, j]   →      C.product0[a, j] += B[a, b] * D[b, j]
                                                            for i, j:  for a:
                                                              C[i, j] += A[i, a] * C.product0[a, j]

        tensor: a te.sum of products, of constant extents, without where= and init=, of loops that are not scheduled yet; of floats,
        float32 or float64. What is inlined into it is part of the factors. path: pairs of places, as np.einsum_path gives
        them. A pair is taken out of the list of factors, which are the declared ones to begin with, and their product comes to its
        end, summed over the axes that no factor left in the list depends on. The last pair leaves one product, the tensor. Axes that
        one factor alone depends on are summed before it is multiplied. Sums of whole numbers have the same bits; those of floats
        are rounded elsewhere, and added in another order.

        Returns the tensors that are new, in the order in which they are computed.

        Raises BadFactors (TW0263), UnknownStage (TW0201), WrongArgument (TW0222).
        """

    def fast_fourier(self, tensor: Tensor, steps: Sequence[Sequence[int]]) -> list[Tensor]:
        """Compute a discrete Fourier transform of topi by passes of small transforms, in one stage of loops.

            for r, k:  for j:                               for r:                                 # fast_fourier(X, [[8, 4], [8, 8]])
              X[r, k] += matrix[k, j] * x[r, j]      →        passes of 8 and 4 over columns, rotations and a transposition,
                                                              passes of 8 and 8 over columns

        tensor: the result of topi.dft or of its kin along an axis of known length, not scheduled yet. steps: the factors of the first and
        of the second step, each from 2 to 31, at least one in the first; their product is the length, or any number from twice the
        length less 1 on: then the transform is a convolution of that length. Rows are loops that a schedule may share. Results are
        those of other sums, within the error that topi.dft states. Returns the tables of roots that the passes read.

        Raises BadFourier (TW0264), UnknownStage (TW0201), WrongArgument (TW0222).
        """

    def matricize(
        self, tensor: Tensor, rows: Sequence[IterVar], columns: Sequence[IterVar], padding: Sequence[int] = (1, 1, 1), turned:
        Sequence[bool] = (), converted: bool | str = False,
    ) -> list[Tensor]:
        """A sum of products of two factors as a product of matrices, padded with zeros to whole tiles.

            for a, b, j:                            A.matrix[i, k] = A[i // 7, k // 3, i % 7, k % 3] if i < 35 else 0
              for e, f:                             B.matrix[k, j] = B[k % 3, k // 3, j]
                C[a, b, j] +=                →      for i in 48, j, k:                # matricize(C, [a, b], [j], (16, 1, 1))
                  A[a, e, b, f] * B[f, e, j]          C.matrix[i, j] += A.matrix[i, k] * B.matrix[k, j]
                                                    C[a, b, j] = C.matrix[a * 7 + b, j]

        A factor that is an element, converted, rounded to TF32 or neither, has a matrix of such elements; any other one that reads a
        tensor, `A[i, k] * d[k]`, is computed once for each element of its matrix, before it is converted. Terms are added in the declared
        order of the reduce axes.

        Parameters
        ----------
        tensor : Tensor
            A sum over products, with axes of known extents and loops that are not scheduled yet; what is inlined into it stands in its
            factors.
        rows : sequence of IterVar
            Axes that the first factor alone depends on. Axes in neither list stay outer dimensions of all that depends on them.
        columns : sequence of IterVar
            Axes that the second factor alone depends on.
        padding : sequence of int, default (1, 1, 1)
            Rows, columns and terms become multiples of these.
        turned : sequence of bool, default ()
            Whether the matrix of rows is [k, i], and that of columns [j, k].
        converted : bool or str, default False
            Whether elements of a matrix are converted, once each, and not as they are stored; "int16": bytes are widened to that, and
            converted where they are multiplied.

        Returns
        -------
        list of Tensor
            The matrices: of rows, of columns, of the result.

        Raises
        ------
        BadMatrix (TW0231)
            It is no such sum, not with these rows and columns, or its loops are scheduled already.
        UnknownStage (TW0201)
            The schedule does not compute the tensor.
        """

    def online(self, tensor: Tensor, factor: int, into: Tensor | None = None, whole: bool = False) -> list[Tensor]:
        """Compute a sum weighted by a softmax chunk by chunk, with what is needed to merge these.

            peak[i] = max over j of x[i, j]                     for c in 4:                         # online(O, 64)
            total[i] = sum over j of exp(x[i, j] - peak[i])       O.peak[c, i] = max over 64 terms of x
            O[i, e] = sum over j of                        →      O.total[c, i] = sum of exp(x - O.peak[c, i])
              exp(x[i, j] - peak[i]) / total[i] * v[j, e]         O.part[c, i, e] = sum of exp(x - O.peak[c, i]) * v[j, e]
                                                                  (largest, total, sum)[i, e] = merged with these three
                                                                O[i, e] = sum[i, e] / total[i, e]

        The sums are taken in another order, and weights have another factor in common. What reads the maximum or the total beside the
        tensor reads what is merged; the stages that were between are gone.

        Parameters
        ----------
        tensor : Tensor
            A sum over one axis of exp(x - peak) times something, peak being the maximum of the same x; divided by the sum of the weights
            before, behind, or nowhere, with element by element operations between.
        factor : int
            Terms of a chunk.
        into : Tensor or None, default None
            An output of a reduction that merges what is merged further, over longer chunks that a program has declared, each
            min(length, terms - chunk * length) terms, `factor` dividing the length: it merges the short chunks itself, and is the last of
            the tensors returned.
        whole : bool, default False
            Whether what weights are multiplied with is the same for all rows of a chunk, where rows have terms of their own number: a
            row multiplies what others alone have by weights of 0, which gives NaN where that is not finite.

        Returns
        -------
        list of Tensor
            "O.scores", "O.peak", "O.weight", "O.total", "O.factor" (what weights are multiplied with), "O.part" and "O.merged" (its sum),
            each but the last with a dimension for the chunk before its others; and "O.rounded" behind the weight where weights are
            rounded to be multiplied.

        Raises
        ------
        BadOnline (TW0233)
            It is no such sum, or not to be computed chunk by chunk.
        UnknownStage (TW0201)
            The schedule does not compute the tensor.
        WrongArgument (TW0222)
            An argument is of another kind.
        """

    def polyphase(self, tensor: Tensor, axis: IterVar, step: int) -> list[Tensor]:
        """Compute the elements of `tensor` with y = 0, 1, ... modulo `step` apart, each in a stage, where `axis` is y.

            for y in 8:  for k in 4:                 for y.outer in 4:  for k.outer in 2:      # polyphase(C, y, 2)
              if (y + k) % 2 == 0:                     C.phase0[y.outer] += A[y.outer + k.outer] * W[2 * k.outer]
                C[y] += A[(y + k) // 2] * W[k]   →   for y.outer in 4:  for k.outer in 2:
                                                       C.phase1[y.outer] += A[y.outer + k.outer + 1] * W[2 * k.outer + 1]
                                                     for y in 8:  C[y] = C.phase1[y // 2] if y % 2 else C.phase0[y // 2]

        In a phase of a reduction `(a * y + b * k + c) % m == d` steps the reduce axis k by m, where it is a condition of the
        reduction, of a choice between its terms and 0, or of a choice between a factor of its terms and 0. No bit changes in the
        first two cases, nor where terms are whole numbers. In the last one a term that is left out was 0 times the other factor:
        NaN where that is infinite or none. Those terms are added up apart, C.left_out, once for all places: the sum is the
        declared one in another order.

        Parameters
        ----------
        tensor : Tensor
            The one output of a te.compute whose loops are as declared. What is inlined into its stage becomes part of the phases.
        axis : IterVar
            A data axis of it, of constant extent.
        step : int
            From 2 to 16.

        Returns
        -------
        list of Tensor
            The phases, of the tensor's dtype, the extent along the axis being what is left of it; one that is the same number everywhere
            is no stage. After them come "C.zeros" and "C.left_out", where there are such.

        Raises
        ------
        BadPhases (TW0262)
            The tensor cannot be computed apart by this axis.
        UnknownStage (TW0201)
            The schedule does not compute the tensor.
        WrongArgument (TW0222)
            An argument is of another kind.
        """

    def predicate(self, tensor: Tensor, fused: bool = False) -> None:
        """Let the condition of the terms of a sum decide what is added, in place of zeros.

            for i:  for k:                                        for i:  for k:                     # predicate(C)
              C[i] += A[i, k] * B[k] if k > i else 0       →        if k > i:  C[i] += A[i, k] * B[k]

        tensor: a te.sum of te.if_then_else(condition, value, 0), or a select, without init=, of loops that are not scheduled yet.
        Loops over what the condition bounds run over the iterations in which something is added. No bit of any result changes, unless
        products are `fused`: taken up by the sum with one rounding, as those of a te.sum without a condition are.

        Raises BadTerms (TW0266), UnknownStage (TW0201), WrongArgument (TW0222).
        """

    def redeclare(self, tensor: Tensor, name: str) -> list[Tensor]:
        """Compute a tensor by another declaration, which its operator offers, as a sweep, or a window by dimensions.

            for n, o, i, j:  for c, p, q:                      for ...: squares ... = transform of the image's tiles
              y[n, o, i, j] += x[...] * w[o, c, p, q]    →     for ...: products ... += squares ... * weights ...
                                                               for n, o, i, j: y[n, o, i, j] = transform of the products

        tensor: the result of an operator that has alternatives, not scheduled yet: `topi.nn.conv2d(..., algorithm="auto")` has
        "winograd". Results are rounded elsewhere, within the error that the operator states for the algorithm. What is computed element
        by element from scans at its own time, and several states of a scan, have "sweep", where nothing else reads these and steps are
        no neighbours: loops over time, each around those over columns, that keep the last steps alone. Minimum, maximum and sums of
        integers over windows of several dimensions have "separable": one dimension after the other. These change no bit. Returns the
        tensors that are new, in the order in which they are computed.

            for t: F[t, j] = F[t - 1, j] + x[t, j]              for t:                                 # redeclare(y, "sweep")
            for t: G[t, j] = max(G[t - 1, j], x[t, j])     →        for j: F = last_f[j] + x[t, j]; G = max(last_g[j], x[t, j])
            for t, j: y[t, j] = F[t, j] - G[t, j]                          y[t, j] = F - G; last_f[j] = F; last_g[j] = G

            for i, j:  for y, x: D[i, j] max= A[i + y, j + x]   for i, c:  for y: D.y[i, c] max= A[i + y, c]
                                                           →    for i, j:  for x: D[i, j] max= D.y[i, j + x]   # "separable"

        Raises BadAlternative (TW0265), UnknownStage (TW0201), WrongArgument (TW0222).
        """

    @overload
    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Tensor:
        """Reduce in two stages: partial results, with a dimension for the reduce loop `axis`, and the tensor over that dimension.

            for k.o in 4:                      for k.i in 8:                  # rfactor(C, k.i)
                for k.i in 8:          →           for k.o in 4:
                    C += A[k.o * 8 + k.i]              C.rf[k.i] += A[k.o * 8 + k.i]
                                               for k.i.v in 8:
                                                   C += C.rf[k.i.v]

        Both stages start with their loops as declared; the tensor keeps its data axes.

        Parameters
        ----------
        tensor : Tensor or sequence of Tensor
            A reduction, or all outputs of one.
        axis : IterVar
            A reduce loop of it that counts from 0, not fused with data axes.
        factor_axis : int, default 0
            The place of the new dimension among those of the tensor, from the end where it is negative.

        Returns
        -------
        Tensor or list of Tensor
            The partial results, "C.rf", of the same dtype: a list for several outputs or for a list.

        Raises
        ------
        BadRfactor (TW0221)
            The reduction cannot be factored over this axis.
        AxisIsNoLoop (TW0205)
            The loop was split or fused.
        NotAnAxisOfStage (TW0202)
            The axis belongs to another stage.
        WrongArgument (TW0222)
            An argument is of another kind.
        AnnotationWouldBeLost (TW0213)
            A loop of the stage is annotated.
        UnknownStage (TW0201)
            The schedule does not compute the tensor.
        UnsplitReduction (TW0234)
            The combiner is not associative, or its identity is none.
        """
    @overload
    def rfactor(self, tensor: Sequence[Tensor], axis: IterVar, factor_axis: int = 0) -> list[Tensor]:
        ...


class GroupPrimitives:
    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute all members that were not placed themselves within an iteration of the loop `scope` of `parent`.

        parent: a stage, s[D], that reads results of the group. scope: a loop of it.

        Raises CannotAttach (TW0215), NestedParallel (TW0209), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
        (TW0222).
        """

    def compute_root(self) -> None:
        """Compute its members before the stages that read them, at the root of the group around it where there is one."""

