"""The site: it is built without a warning, and every link leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent
LINK = re.compile(r'(?:href|src)="([^"#?]+)(?:#([^"]*))?"')


def test_every_page_of_the_documents_is_in_the_navigation():
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert pages <= named and named - pages == {"errors.md", "changelog.md", "examples/index.md"}


@pytest.mark.slow
def test_the_site_is_built_and_its_links_lead_somewhere(tmp_path):
    pytest.importorskip("material", reason="install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
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
    assert "E0301" in pages[site / "errors.html"] and 'class="highlight"' in pages[site / "language.html"]
