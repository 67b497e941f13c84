"""The page about a schedule in a browser: what lights up, the steps, the stages, and that nothing fails or is fetched."""

from __future__ import annotations

import base64
import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.views.report import page, write_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1600,950",
)


def packed_matmul(n: int = 256) -> te.Schedule:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    packed = te.compute((n // 32, n, 32), lambda x, k, y: B[k, x * 32 + y], name="packed")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * packed[j // 32, k, j % 32], axis=k), name="C")
    s = te.create_schedule(C)
    cached = s.cache_write(C, "global")
    xo, yo, _, yi = s[C].tile(*s[C].op.axis, 32, 32)
    s[cached].compute_at(s[C], yo)
    xc, yc = s[cached].op.axis
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], 4)
    s[cached].reorder(ko, xc, ki, yc)
    s[cached].unroll(ki)
    s[cached].vectorize(yc)
    s[C].vectorize(yi)
    s[C].parallel(xo)
    s[packed].vectorize(s[packed].op.axis[2])
    s[packed].parallel(s[packed].op.axis[0])
    return s


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with an empty profile."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("this machine has no chromium and chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def matmul_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(packed_matmul(), tmp_path_factory.mktemp("pages") / "matmul.html")


@pytest.fixture
def opened(browser: Any, matmul_page: Path) -> Iterator[Any]:
    """The browser at the page of a packed matmul, opened from disk; at the end nothing may have failed or been fetched."""
    browser.get(matmul_page.as_uri())
    yield browser
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    assert complaints == []
    fetched = [
        entry["message"]
        for entry in browser.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    assert not [message for message in fetched if '"url":"http' in message]


def find(browser: Any, css: str) -> list[Any]:
    return browser.find_elements("css selector", css)


def containing(browser: Any, css: str, text: str) -> Any:
    """The first element with a text; null where there is none."""
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].find((e) => e.textContent.includes(arguments[1]))",
        css,
        text,
    )


def texts(browser: Any, css: str) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent.trim())", css
    )


def row(browser: Any, text: str) -> Any:
    return containing(browser, "#pane-loops tbody tr", text)


def point(browser: Any, element: Any) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element(element).perform()


def lit(browser: Any, pane: str) -> list[str]:
    return texts(browser, f"#pane-{pane} .lit")


def test_pointing_at_a_loop_lights_its_records_and_its_instructions(opened: Any) -> None:
    point(opened, row(opened, "for k.inner in unrolled(4)").find_element("tag name", "code"))
    assert [one.get_attribute("data-r") for one in find(opened, ".record.lit")] == ["4", "5", "6"]
    assert "3" in [one.get_attribute("data-r") for one in find(opened, ".record.near")]
    instructions = lit(opened, "assembly")
    assert instructions and any("fma" in one or "fmla" in one for one in instructions)
    assert len(instructions) == int(row(opened, "for k.inner").find_elements("tag name", "td")[-1].text)
    assert "record" in opened.find_element("id", "told").text
    assert find(opened, "#map i")


def test_pointing_at_a_record_lights_its_loops_and_at_an_instruction_its_line(opened: Any) -> None:
    point(opened, find(opened, ".record[data-r='4']")[0])
    assert next(iter(lit(opened, "loops"))).startswith("for k.outer in 64:")
    assert len(lit(opened, "loops")) == 2
    product = containing(opened, "#pane-assembly .i", "fm")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", product)
    point(opened, product)
    assert ["packed[" in text and "A[" in text for text in lit(opened, "loops")] == [True]
    assert [one.get_attribute("data-r") for one in find(opened, ".record.lit")] == ["1", "5", "7"]


def test_a_click_keeps_what_is_lit_and_escape_lets_it_go(opened: Any) -> None:
    from selenium.webdriver import ActionChains

    loop = row(opened, "for i.outer")
    loop.find_element("tag name", "code").click()
    kept = lit(opened, "assembly")
    point(opened, row(opened, "for x in parallel"))
    assert lit(opened, "assembly") == kept and "kept" in opened.find_element("id", "told").text
    ActionChains(opened).send_keys("\ue00c").perform()
    assert lit(opened, "assembly") == []


def test_the_steps_show_what_each_primitive_changed(opened: Any) -> None:
    from selenium.webdriver import ActionChains

    opened.find_element("id", "tab-steps").click()
    assert opened.find_element("id", "place").text == "11 of 11"
    for _ in range(7):
        ActionChains(opened).send_keys("\ue012").perform()
    assert opened.find_element("id", "place").text == "4 of 11"
    shown = find(opened, ".diff:not([hidden])")[0]
    shown = f".diff[data-step='{shown.get_attribute('data-step')}']"
    removed, added = texts(opened, f"{shown} .minus"), texts(opened, f"{shown} .plus")
    assert removed[0] == "for k in 256:"
    assert added[:2] == ["for k.outer in 64:", "for k.inner in 4:"]
    opened.find_element("id", "previous").click()
    assert "compute_at" in find(opened, "li[aria-current]")[0].text
    find(opened, "#step-list li")[0].click()
    assert not opened.find_element("id", "previous").is_enabled()


def test_the_stages_show_where_each_is_computed(opened: Any) -> None:
    opened.find_element("id", "tab-stages").click()
    assert texts(opened, "#graph .title") == ["A", "B", "packed", "C.global", "C"]
    assert texts(opened, "#graph .hook title") == ["C.global at j.outer of C"]
    assert len(find(opened, "#graph path.reads")) == 4
    boxes = [one.rect for one in find(opened, "#graph .stage rect")]
    for at, a in enumerate(boxes):
        for b in boxes[at + 1 :]:
            assert (
                a["x"] + a["width"] <= b["x"]
                or b["x"] + b["width"] <= a["x"]
                or a["y"] + a["height"] <= b["y"]
                or (b["y"] + b["height"] <= a["y"])
            )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it_in_both_themes(opened: Any, theme: str) -> None:
    opened.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    point(opened, row(opened, "for k.outer"))
    contrasts = opened.execute_script(CONTRAST)
    assert min(contrasts.values()) >= 4.5, contrasts
    assert (contrasts["page"] > 1) and opened.execute_script("return isDark()") == (theme == "dark")
    opened.find_element("id", "theme").click()
    assert opened.execute_script("return isDark()") == (theme == "light")
    opened.execute_script("localStorage.clear()")


CONTRAST = """
const light = (color) => {
  const [r, g, b] = color.match(/[\\d.]+/g).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor;
    if (!color.endsWith(", 0)") && color !== "transparent") return color;
  }
};
const contrast = (e) => {
  const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const found = {page: contrast(document.querySelector("h1"))};
for (const css of [".record code", "tr.lit td", "tr.lit .k-word", "tr.lit .k-number", ".i.lit", ".d", ".k-kind", ".k-type", "h2",
                   ".facts span", "#told b", "footer", "tr.near .k-number", "tr.near td", ".at"])
  found[css] = contrast(document.querySelector(css));
return found;
"""


def test_a_schedule_of_many_stages_stays_small_and_opens(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.views.steps._MOST_LOWERED", 100)
    A = te.placeholder((64, 64), name="A")
    last = A
    for at in range(12):
        last = te.compute((64, 64), lambda i, j, last=last: last[i, j] * 2 + last[i, j], name=f"T{at}")
    s = te.create_schedule(last)
    for stage in s.stages[1:]:
        stage.unroll(stage.split(stage.op.axis[1], 8)[1])
        stage.parallel(stage.op.axis[0])
    path = write_page(s, tmp_path / "long.html")
    assert path.stat().st_size < 2_000_000
    browser.get(path.as_uri())
    assert len(texts(browser, "#step-list li")) == 37 and len(texts(browser, ".diff .plus")) > 12
    assert "shown after one of the next steps" in texts(browser, ".diff .cut")[0]
    assert len(find(browser, ".stage")) == 13 and browser.get_log("browser") == []
    browser.get_log("performance")


def test_a_notebook_shows_it_in_a_frame_that_has_no_storage(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><link rel=icon href=data:,><body>{packed_matmul(64)._repr_html_()}"
    )
    browser.get(path.as_uri())
    browser.switch_to.frame(find(browser, "iframe")[0])
    point(browser, row(browser, "for k.outer").find_element("tag name", "code"))
    assert [one.get_attribute("data-r") for one in find(browser, ".record.lit")] == ["4", "5"]
    before = browser.execute_script("return isDark()")
    browser.find_element("id", "theme").click()
    assert browser.execute_script("return isDark()") != before
    browser.switch_to.default_content()
    assert browser.get_log("browser") == []
    browser.get_log("performance")


# Without a browser


def test_the_page_stands_alone_and_escapes_what_users_name() -> None:
    A = te.placeholder((4,), name="A")
    s = te.create_schedule(te.compute((4,), lambda i: A[i] + 1, name="<script>alert(1)</script>"))
    text = page(s)
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert "http://" not in text and "https://" not in text and "src=" not in text
    assert len(page(packed_matmul())) < 200_000


def test_a_schedule_that_rules_chose_shows_its_plan_and_one_by_hand_its_estimate() -> None:
    a, b = te.placeholder((40, 30), name="a"), te.placeholder((50, 30), name="b")
    k = te.reduce_axis((0, 30), "k")
    nearest = te.compute((40, 50), lambda i, j: te.max(a[i, k] - b[j, k], axis=k), name="nearest")
    s = tw.autoschedule.schedule(nearest)
    (row,) = s.plan
    text = page(s, "interpret")
    assert 'aria-controls="plan"' in text and "sums of nearest" in text and row.binds in text
    assert text.count("→ ") == 1 + page(te.create_schedule(nearest.op), "interpret").count("→ "), (
        "one candidate was taken"
    )
    (own,) = te.create_schedule(nearest.op).plan
    assert own.rule == "none" and own.binds in page(te.create_schedule(nearest.op), "interpret")


def test_a_schedule_that_is_not_whole_shows_what_is_open() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    C = te.compute((4,), lambda i: B[i] + 1, name="C")
    D = te.compute((4,), lambda i: B[i] + C[i], name="D")
    s = te.create_schedule(D)
    s[B].compute_at(s[C], C.op.axis[0])
    text = page(s)
    assert "not whole yet" in text and "D reads B too" in text and "s[B].compute_at(s[C], i" in text


def test_recomputing_is_warned_of() -> None:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: te.exp(A[i, j]), name="B")
    C = te.compute((64, 8, 64), lambda i, c, j: B[i, j] * c, name="C")
    s = te.create_schedule(C)
    s[B].compute_at(s[C], C.op.axis[1])
    assert "every element of B is computed 8 times" in page(s)


def test_records_of_threads_and_other_targets_need_no_assembly() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(B.op.axis[0], 32)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    assert 'aria-label="assembly"' not in page(s, target="interpret")
    assert "threadIdx.x" in page(s) and 'aria-label="assembly"' in page(s)


def test_showing_writes_where_it_is_told_and_notebooks_get_a_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = packed_matmul(64)
    assert s.show(tmp_path / "page.html") == tmp_path / "page.html"
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    written = s.show()
    assert written is not None and "<title>C · schedule</title>" in written.read_text()
    written.unlink()
    frame = s._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and "sandbox=" in frame
    packed = re.search(r"atob\('([^']*)'\)", frame)
    assert packed is not None and "<title>C · schedule</title>" in gzip.decompress(base64.b64decode(packed[1])).decode()


def test_a_notebook_keeps_little_of_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    s = packed_matmul(64)
    whole = s._repr_html_()
    assert len(whole) < 20_000
    for most, shown in ((len(whole) - 1, "<iframe"), (500, "<pre>")):
        monkeypatch.setattr("tilewright.views.report._MOST_OF_A_NOTEBOOK", most)
        less = s._repr_html_()
        assert less.startswith(shown) and len(less) <= most
    assert "s.show(&quot;page.html&quot;) writes all of it" in less
