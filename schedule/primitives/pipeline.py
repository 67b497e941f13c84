"""pipeline: what later iterations need is on its way while this one uses its own.

    for k in 9:                           S: shared float32[3, 8]                # s[S].pipeline(3)
        S: shared float32[8]              for f in 2:
        for i in 8:                 →         for i in 8: S[f, i] = A[f * 8 + i];  commit
            S[i] = A[k * 8 + i]           for k in 9:
        ... S[i] ...                          wait for all groups but the last
                                              if k + 2 < 9:
                                                  for i in 8: S[(k + 2) % 3, i] = A[(k + 2) * 8 + i]
                                              commit
                                              ... S[k % 3, i] ...

On a GPU the copies are asynchronous (cp.async): they go past the registers, and memory is waited for once it has had the time of
two iterations. Where an element is converted, or is no part of 4, 8 or 16 bytes that lie so in both memories, it is loaded and
stored as many iterations ahead. As TVM's software_pipeline_stage.

by="tma" leaves the copies to the copy engine (sm_90a): one thread asks for a whole box of a tensor (cp.async.bulk.tensor), and all
wait at an mbarrier, of which each place has one, until its bytes have come:

            for k in 9:
                tw_bulk_wait(barrier[k % 3])
                if k + 2 < 9 and this is the first thread:
                    tw_bulk_expect(barrier[(k + 2) % 3], 32 bytes);  tw_bulk_copy(&S[(k + 2) % 3, 0], A_map, .., (k + 2) * 8)
                ... S[k % 3, i] ...
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...base.errors import user_source
from ..errors import BadOverlap
from ..lowering.software_pipelining import Ahead
from ..model.checks import outline
from ..model.foreign import integer, require_one
from ..model.methods import StagePrimitives
from ..model.overlap import Overlap
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage
from .overlap import set_overlap

__all__ = ["pipeline"]

MOST_STAGES = 16
COPIES = ("cp.async", "tma")
CLUSTERS = (1, 2, 4, 8)
MOST_BLOCKS = CLUSTERS[-1]


def _tries(stage: Stage) -> Iterator[Try]:
    if not stage.op.is_given:
        yield "3", lambda one: one.pipeline(3)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.attached_stage()
    if stage is None:
        return None
    stages = drawer.pick([2, 3, 4])
    return f"pipeline({stages}) of {stage.name}", partial(stage.pipeline, stages)


@primitive(
    StagePrimitives,
    "storage",
    tries=_tries,
    draw=_draw,
    weight=2,
    rare=True,
    lowering=Ahead,
    foreign={
        "stages": integer(2, MOST_STAGES),
        "by": require_one(*COPIES),
        "warp_specialize": require_one(True, False),
        "cluster": integer(1, MOST_BLOCKS),
    },
)
def pipeline(stage: Stage, stages: int, by: str = "cp.async", warp_specialize: bool = False, cluster: int = 1) -> None:
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
    roles = f's[{stage.name}].pipeline({stages!r}, by="tma", warp_specialize=True'
    if warp_specialize and by != "tma":
        raise _refusal(stage, "only the copy engine is asked by warps of their own", f"{roles})")
    if isinstance(cluster, bool) or cluster not in CLUSTERS or (cluster > 1 and not warp_specialize):
        alone = ", and no warps of their own ask for copies" if cluster in CLUSTERS else ""
        raise _refusal(
            stage,
            f"clusters of {cluster!r} blocks copy it"[:200] + alone,
            f"{roles}, cluster=2)",
            f"{', '.join(map(str, CLUSTERS))}, where warps of their own ask for copies",
        )
    if by not in COPIES:
        raise _refusal(
            stage,
            f"nothing copies by {by!r}",
            f's[{stage.name}].pipeline({stages!r}, by="tma")',
            ", ".join(map(repr, COPIES)),
        )
    if isinstance(stages, bool) or not isinstance(stages, int) or not 2 <= stages <= MOST_STAGES:
        raise _refusal(
            stage,
            f"it is to have {stages!r} stages",
            f"s[{stage.name}].pipeline(3)",
            f"integers from 2 to {MOST_STAGES}",
        )
    said = (
        {}
        if by == COPIES[0]
        else {
            "by": by,
            **({"warp_specialize": True} if warp_specialize else {}),
            **({"cluster": cluster} if cluster > 1 else {}),
        }
    )
    overlap = Overlap(
        "pipeline",
        f"{stages}-stage",
        turns=stages,
        asynchronous=True,
        bulk=by == "tma",
        roles=bool(warp_specialize),
        cluster=cluster,
    )
    set_overlap(stage, overlap, stages=stages, **said)


def _refusal(stage: Stage, reason: str, fix: str, allowed: str = "") -> BadOverlap:
    return BadOverlap(
        f"cannot give stage {stage.name} a pipeline",
        reason=reason[:250],
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage),
        allowed=allowed,
        fix=fix[:200],
    )
