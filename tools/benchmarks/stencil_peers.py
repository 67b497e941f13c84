"""The image kernels of stencil_cases as their peers write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

prange = range
"""Numba's, once one of its kernels is made."""


# Box blur


def halide_box_blur(hl: Any, given: list[Any]) -> Any:
    x, y = hl.Var("x"), hl.Var("y")
    across, out = hl.Func("across"), hl.Func("out")
    across[x, y] = (given[0][x, y] + given[0][x + 1, y] + given[0][x + 2, y]) / hl.u16(3)
    out[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) / hl.u16(3)
    return out


def numba_box_blur(image, out):  # pyright: ignore
    high, wide = out.shape
    for band in prange((high + 31) // 32):
        rows = np.empty((3, wide), np.uint16)
        first, last = band * 32, min(band * 32 + 32, high)
        for y in range(first, last + 2):
            row = rows[y % 3]
            for x in range(wide):
                row[x] = np.uint16(np.uint16(image[y, x] + image[y, x + 1]) + image[y, x + 2]) // np.uint16(3)
            if y >= first + 2:
                a, b, c = rows[0], rows[1], rows[2]
                for x in range(wide):
                    out[y - 2, x] = np.uint16(np.uint16(a[x] + b[x]) + c[x]) // np.uint16(3)


# Unsharp mask


def opencv_unsharp(cv2: Any, inputs: Any, outputs: Any) -> None:
    blurred = cv2.GaussianBlur(inputs[0], (5, 5), 1.1)
    cv2.addWeighted(inputs[0], 2.5, blurred, -1.5, 0, dst=outputs[0])


def halide_unsharp(taps: Sequence[float], by_hand: bool) -> Callable[[Any, list[Any]], Any]:
    """Compute in 16-bit fixed point as ours is; by hand, rows of the first pass in a circular buffer."""
    weights = [round(tap * 65536) for tap in taps]
    weights[2] += 65536 - sum(weights)

    def define(hl: Any, given: list[Any]) -> Any:
        image = hl.BoundaryConditions.mirror_interior(given[0])
        c, x, y, yo, yi = (hl.Var(name) for name in ("c", "x", "y", "yo", "yi"))
        across, out = hl.Func("across"), hl.Func("out")

        def weighted(values: list[Any]) -> Any:
            total = None
            for weight, value in zip(weights, values, strict=True):
                part = hl.cast(hl.UInt(16), (hl.cast(hl.UInt(32), value) * hl.u32(weight)) >> 16)
                total = part if total is None else total + part
            return total

        across[c, x, y] = weighted([hl.cast(hl.UInt(16), image[c, x + k - 2, y]) << hl.u16(8) for k in range(5)])
        blurred = weighted([across[c, x, y + k - 2] for k in range(5)])
        wide = hl.cast(hl.Int(16), given[0][c, x, y])
        detail = (wide << hl.i16(6)) - hl.cast(hl.Int(16), blurred >> hl.u16(2)) + hl.i16(21)
        added = hl.cast(hl.Int(16), (hl.cast(hl.Int(32), detail) * hl.i32(1536)) >> 16)
        out[c, x, y] = hl.cast(hl.UInt(8), hl.clamp(wide + added, hl.i16(0), hl.i16(255)))
        if by_hand:
            out.bound(c, 0, 3).split(y, yo, yi, 50).parallel(yo).vectorize(x, 32).reorder(c, x, yi, yo).unroll(c)
            across.store_at(out, yo).compute_at(out, yi).vectorize(x, 32).reorder(c, x, y).unroll(c)
        return out

    return define


def numba_unsharp(taps: Sequence[float]) -> Callable[..., None]:
    w = tuple(np.float32(tap) for tap in taps)

    def unsharp(image, out):  # pyright: ignore
        high, wide, channels = image.shape
        width = wide * channels
        for y in prange(high):
            down = np.empty(width + 4 * channels, np.float32)
            at = np.int64(y)
            below, last = min(at + 1, 2 * high - 3 - at), min(at + 2, 2 * high - 4 - at)
            a, b, c = image[abs(at - 2)].ravel(), image[abs(at - 1)].ravel(), image[at].ravel()
            d, e = image[below].ravel(), image[last].ravel()
            for f in range(width):
                outer, inner = np.float32(a[f]) + np.float32(e[f]), np.float32(b[f]) + np.float32(d[f])
                down[f + 2 * channels] = outer * w[0] + inner * w[1] + c[f] * w[2]
            for k in range(channels):
                down[k], down[channels + k] = down[4 * channels + k], down[3 * channels + k]
                down[width + 2 * channels + k], down[width + 3 * channels + k] = (
                    down[width + k],
                    down[width - channels + k],
                )
            line = out[y].ravel()
            for f in range(width):
                blur = (
                    (down[f] + down[f + 4 * channels]) * w[0]
                    + (down[f + channels] + down[f + 3 * channels]) * w[1]
                    + down[f + 2 * channels] * w[2]
                )
                value = c[f] + np.float32(1.5) * (c[f] - blur) + np.float32(0.5)
                line[f] = np.uint8(min(max(value, np.float32(0)), np.float32(255)))

    return unsharp


def torch_unsharp(taps: Sequence[float]) -> Callable[..., Any]:
    def unsharp(torch: Any, image: Any) -> Any:
        x = image.permute(2, 0, 1)[:, None].float()
        w = torch.tensor(taps)
        padded = torch.nn.functional.pad(x, (2, 2, 2, 2), mode="reflect")
        blurred = torch.conv2d(torch.conv2d(padded, w.view(1, 1, 1, 5)), w.view(1, 1, 5, 1))
        sharp = (x + 1.5 * (x - blurred) + 0.5).clamp_(0, 255).to(torch.uint8)
        return sharp[:, 0].permute(1, 2, 0).contiguous()

    return unsharp


# Bilateral slice: the grid is (GH, GW, D, 3, 4)


def numba_slice(grid, guide, image, out):  # pyright: ignore
    cells, depth = grid.shape[0], grid.shape[2]
    high, wide = guide.shape
    scale = np.float32(cells / high)
    for y in prange(high):
        gy = (y + np.float32(0.5)) * scale - np.float32(0.5)
        y0 = int(np.floor(gy))
        fy = gy - y0
        up, down = grid[max(y0, 0)], grid[min(y0 + 1, cells - 1)]
        row = np.empty((cells, depth, 12), np.float32)  # the grid between two rows of cells
        for j in range(cells):
            for z in range(depth):
                for k in range(12):
                    row[j, z, k] = up[j, z, k // 4, k % 4] * (1 - fy) + down[j, z, k // 4, k % 4] * fy
        a = np.empty(12, np.float32)
        for x in range(wide):
            gx = (x + np.float32(0.5)) * scale - np.float32(0.5)
            x0 = int(np.floor(gx))
            fx = gx - x0
            left, right = row[max(x0, 0)], row[min(x0 + 1, cells - 1)]
            gz = min(max(guide[y, x] * depth, np.float32(0.5)), np.float32(depth - 0.5)) - np.float32(0.5)
            z = min(int(gz), depth - 2)
            fz = gz - z
            for k in range(12):
                a[k] = (left[z, k] * (1 - fx) + right[z, k] * fx) * (1 - fz) + (
                    left[z + 1, k] * (1 - fx) + right[z + 1, k] * fx
                ) * fz
            for o in range(3):
                out[o, y, x] = (
                    a[4 * o] * image[0, y, x]
                    + a[4 * o + 1] * image[1, y, x]
                    + a[4 * o + 2] * image[2, y, x]
                    + a[4 * o + 3]
                )


def numba_slice_gradients(grid, guide, image, head, grad_grid, grad_guide, grad_image):  # pyright: ignore
    cells, depth = grid.shape[0], grid.shape[2]
    high, wide = guide.shape
    scale, parts = np.float32(cells / high), 8
    partial = np.zeros((parts, cells, cells, depth, 3, 4), np.float32)
    for part in prange(parts):
        mine = partial[part]
        a, b = np.empty(12, np.float32), np.empty(12, np.float32)
        g = np.empty(12, np.float32)
        for y in range(part * high // parts, (part + 1) * high // parts):
            gy = (y + np.float32(0.5)) * scale - np.float32(0.5)
            y0 = int(np.floor(gy))
            fy = gy - y0
            ya, yb = max(y0, 0), min(y0 + 1, cells - 1)
            for x in range(wide):
                gx = (x + np.float32(0.5)) * scale - np.float32(0.5)
                x0 = int(np.floor(gx))
                fx = gx - x0
                xa, xb = max(x0, 0), min(x0 + 1, cells - 1)
                free = guide[y, x] * depth
                gz = min(max(free, np.float32(0.5)), np.float32(depth - 0.5)) - np.float32(0.5)
                z = min(int(gz), depth - 2)
                fz = gz - z
                for k in range(12):
                    i, j = k // 4, k % 4
                    a[k] = (grid[ya, xa, z, i, j] * (1 - fx) + grid[ya, xb, z, i, j] * fx) * (1 - fy) + (
                        grid[yb, xa, z, i, j] * (1 - fx) + grid[yb, xb, z, i, j] * fx
                    ) * fy
                    b[k] = (grid[ya, xa, z + 1, i, j] * (1 - fx) + grid[ya, xb, z + 1, i, j] * fx) * (1 - fy) + (
                        grid[yb, xa, z + 1, i, j] * (1 - fx) + grid[yb, xb, z + 1, i, j] * fx
                    ) * fy
                for o in range(3):
                    for c in range(3):
                        g[4 * o + c] = head[o, y, x] * image[c, y, x]
                    g[4 * o + 3] = head[o, y, x]
                slope = np.float32(0)
                for k in range(12):
                    slope += g[k] * (b[k] - a[k])
                grad_guide[y, x] = slope * depth if np.float32(0.5) < free < np.float32(depth - 0.5) else np.float32(0)
                for c in range(3):
                    total = np.float32(0)
                    for o in range(3):
                        total += head[o, y, x] * (a[4 * o + c] * (1 - fz) + b[4 * o + c] * fz)
                    grad_image[c, y, x] = total
                for k in range(12):
                    i, j = k // 4, k % 4
                    mine[ya, xa, z, i, j] += g[k] * (1 - fy) * (1 - fx) * (1 - fz)
                    mine[ya, xb, z, i, j] += g[k] * (1 - fy) * fx * (1 - fz)
                    mine[yb, xa, z, i, j] += g[k] * fy * (1 - fx) * (1 - fz)
                    mine[yb, xb, z, i, j] += g[k] * fy * fx * (1 - fz)
                    mine[ya, xa, z + 1, i, j] += g[k] * (1 - fy) * (1 - fx) * fz
                    mine[ya, xb, z + 1, i, j] += g[k] * (1 - fy) * fx * fz
                    mine[yb, xa, z + 1, i, j] += g[k] * fy * (1 - fx) * fz
                    mine[yb, xb, z + 1, i, j] += g[k] * fy * fx * fz
    grad_grid[:] = 0
    for part in range(parts):
        grad_grid += partial[part]


def halide_slice(by_hand: bool) -> Callable[[Any, list[Any]], Any]:
    """Rows of the grid first, then the two cells and two depths of each pixel."""

    def define(hl: Any, given: list[Any]) -> Any:
        grid, guide, image = given
        cells, depth, high = grid.dim(4).extent(), grid.dim(2).extent(), guide.dim(1).extent()
        around = hl.BoundaryConditions.repeat_edge(grid)
        c, o, z, j, x, y, k = (hl.Var(name) for name in ("c", "o", "z", "j", "x", "y", "k"))
        rows, affine, out = hl.Func("rows"), hl.Func("affine"), hl.Func("out")
        scale = float(cells) / high

        def place(v: Any) -> tuple[Any, Any]:
            exact = (hl.cast(hl.Float(32), v) + 0.5) * hl.f32(scale) - 0.5
            cell = hl.cast(hl.Int(32), hl.floor(exact))
            return cell, exact - hl.cast(hl.Float(32), cell)

        iy, fy = place(y)
        rows[c, o, z, j, y] = around[c, o, z, j, iy] * (1 - fy) + around[c, o, z, j, iy + 1] * fy
        jx, fx = place(x)
        gz = hl.clamp(guide[x, y] * hl.f32(depth), hl.f32(0.5), hl.f32(depth - 0.5)) - 0.5
        kz = hl.clamp(hl.cast(hl.Int(32), gz), 0, depth - 2)
        fz = gz - hl.cast(hl.Float(32), kz)

        def level(at: Any) -> Any:
            return rows[c, o, at, jx, y] * (1 - fx) + rows[c, o, at, jx + 1, y] * fx

        affine[c, o, x, y] = level(kz) * (1 - fz) + level(kz + 1) * fz
        out[x, y, k] = (
            affine[0, k, x, y] * image[x, y, 0]
            + affine[1, k, x, y] * image[x, y, 1]
            + affine[2, k, x, y] * image[x, y, 2]
            + affine[3, k, x, y]
        )
        if by_hand:
            out.bound(k, 0, 3).reorder(k, x, y).unroll(k).vectorize(x, 16).parallel(y)
            rows.compute_at(out, y).bound(c, 0, 4).bound(o, 0, 3).reorder(c, o, z, j).vectorize(c, 4).unroll(o)
            affine.compute_at(out, x).reorder(c, o, x).vectorize(x, 16).unroll(c).unroll(o)
        return out

    return define


def halide_slice_gradients(hl: Any, given: list[Any]) -> list[Any]:
    """Return Halide's propagate_adjoints of the slice, for an autoscheduler. Inputs are read within their bounds wherever a schedule
    rounds a loop up."""
    buffers = [hl.BoundaryConditions.repeat_edge(buffer) for buffer in given]
    grid, guide, image, head = (hl.Func(name) for name in ("grid", "guide", "image", "head"))
    c, o, z, j, i, x, y, k = (hl.Var(name) for name in ("c", "o", "z", "j", "i", "x", "y", "k"))
    cells, depth = given[0].dim(4).extent(), given[0].dim(2).extent()
    wide, high = given[1].dim(0).extent(), given[1].dim(1).extent()
    grid[c, o, z, j, i] = buffers[0][c, o, z, j, i]
    guide[x, y] = buffers[1][x, y]
    image[x, y, k] = buffers[2][x, y, k]
    head[x, y, k] = buffers[3][x, y, k]
    affine, out = hl.Func("affine"), hl.Func("out")

    def place(v: Any, size: int) -> tuple[Any, Any, Any]:
        exact = (hl.cast(hl.Float(32), v) + 0.5) * hl.f32(cells / size) - 0.5
        cell = hl.cast(hl.Int(32), hl.floor(exact))
        return hl.clamp(cell, 0, cells - 1), hl.clamp(cell + 1, 0, cells - 1), exact - hl.cast(hl.Float(32), cell)

    (above, below, fy), (left, right, fx) = place(y, high), place(x, wide)
    gz = hl.clamp(guide[x, y] * hl.f32(depth), hl.f32(0.5), hl.f32(depth - 0.5)) - 0.5
    kz = hl.clamp(hl.cast(hl.Int(32), gz), 0, depth - 2)
    fz = gz - hl.cast(hl.Float(32), kz)

    def level(at: Any) -> Any:
        return (grid[c, o, at, left, above] * (1 - fx) + grid[c, o, at, right, above] * fx) * (1 - fy) + (
            grid[c, o, at, left, below] * (1 - fx) + grid[c, o, at, right, below] * fx
        ) * fy

    affine[c, o, x, y] = level(kz) * (1 - fz) + level(kz + 1) * fz
    out[x, y, k] = (
        affine[0, k, x, y] * image[x, y, 0]
        + affine[1, k, x, y] * image[x, y, 1]
        + affine[2, k, x, y] * image[x, y, 2]
        + affine[3, k, x, y]
    )
    whole = [hl.Range(0, extent - 1) for extent in (wide, high, given[2].dim(2).extent())]  # taken for first and last
    adjoints = hl.propagate_adjoints(out, head, whole)
    return [adjoints[buffer] for buffer in (grid, guide, image)]


def torch_slice(torch: Any, grid: Any, guide: Any, image: Any) -> Any:
    high, wide = guide.shape
    volume = grid.reshape(*grid.shape[:3], 12).permute(3, 2, 0, 1)[None]  # (1, 12, D, GH, GW)
    y = (torch.arange(high) + 0.5) * (2 / high) - 1
    x = (torch.arange(wide) + 0.5) * (2 / wide) - 1
    at = torch.stack([x[None].expand(high, wide), y[:, None].expand(high, wide), guide * 2 - 1], -1)[None, None]
    a = torch.nn.functional.grid_sample(volume, at, "bilinear", "border", align_corners=False)[0, :, 0].view(
        3, 4, high, wide
    )
    return (a[:, :3] * image).sum(1) + a[:, 3]
