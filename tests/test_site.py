"""The site: it is built without a warning, and every link leads somewhere."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent
LINK = re.compile(r'(?:href|src)="([^"#?]+)(?:#([^"]*))?"')


def test_every_page_of_the_documents_is_in_the_navigation():
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert pages <= named and named - pages == {
        "errors.md", "changelog.md", "contributing.md", "examples/index.md",
    }  # fmt: skip


def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Those of the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_pages_of_the_repository_lead_somewhere():
    generated = {ROOT / "docs/errors.md"}
    folders = [p for folder in ("docs", "examples", "benchmarks") for p in (ROOT / folder).rglob("*.md")]
    broken = []
    for page in [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")), *folders]:
        text = re.sub(r"`[^`]*`", "", prose(page))
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
            file = (page.parent / target).resolve() if target else page
            if file not in generated and (not file.exists() or (anchor and anchor not in anchors(file))):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert not broken


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="install '.[docs]'")
    if not entry_points(group="pygments.lexers", name="dlang"):
        pytest.skip("dlang is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_links_of_the_site_lead_somewhere(site):
    pages = {p: p.read_text(encoding="utf-8") for p in site.rglob("*.html") if p.name != "404.html"}
    assert len(pages) > 50
    broken = []
    for page, text in pages.items():
        for target, anchor in LINK.findall(text):
            if re.match(r"\w+:", target):
                continue
            file = (page.parent / unquote(target)).resolve()
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (anchor and file in pages and f'id="{unquote(anchor)}"' not in pages[file]):
                broken.append(f"{page.relative_to(site)}: {target}#{anchor}")
    assert not broken
    assert "E0301" in pages[site / "errors.html"]


@pytest.mark.slow
def test_programs_on_the_site_have_colours_and_what_is_refused_says_so(site):
    text = (site / "index.html").read_text()
    assert re.search(r'<span class="kd?">fn</span>', text)
    refused = (site / "language.html").read_text()
    assert re.search(r'<p class="refused">[^<]*<a href="errors.html#e0\d+">', refused)


@pytest.mark.slow
def test_the_site_needs_no_network(site):
    loaded = re.compile(r'<(?:script|link|img)[^>]*\b(?:src|href)="(https?:)?//[^"]*"')
    assert not [p for p in site.rglob("*.html") if any("canonical" not in m[0] for m in loaded.finditer(p.read_text()))]
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("there is no browser to search with")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={site / 'browser'}"]
    wanted = f"file://{site}/index.html?q=progress"
    command = [browser, *options, "--virtual-time-budget=15000", "--dump-dom", wanted]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert re.search(r'class="md-search-result__item"><a href="[^"]*long_runs.html', found)
