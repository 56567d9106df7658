"""`dlc doc`: what the pages say, and that all their links lead somewhere."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from dlang.diagnostics import Source
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.tools.doc import make

pytest.importorskip("markdown_it")
pytest.importorskip("pygments")
STDLIB = Path(__file__).parents[2] / "stdlib"
VOID = {"meta", "link", "input", "br", "hr", "img"}


class Page(HTMLParser):
    """What is in a page: its ids, links and text; it is well formed if no tag is left open or closes another."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.open, self.words, self.wrong = [], [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[a] for a in ("href", "src") if a in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


def pages(folder):
    return {path: Page(path) for path in sorted(folder.rglob("*.html"))}


def index(folder):
    text = (folder / "search_index.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("const SEARCH_INDEX = ").removesuffix(";\n"))


def dead_links(folder):
    made = pages(folder)
    dead = []
    for path, page in made.items():
        addresses = page.links + ([f"modules/{row[3]}" for row in index(folder)] if path.name == "index.html" else [])
        for link in addresses:
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            known = made[target].ids if target in made else []
            if not target.is_file() or (anchor and unquote(anchor) not in known):
                dead.append(f"{path.name}: {link}")
    return dead


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    make([str(STDLIB)], "The library", folder)
    return folder


@pytest.fixture
def site(write, dlc, tmp_path):
    """Makes pages of files; gives a function for the text of one of them."""

    def build(**files):
        for name, text in files.items():
            write(text, f"src/{name}.dl")
        assert dlc("doc", "src", "-o", "out") == (0, "out/index.html\n", "")
        assert not dead_links(tmp_path / "out")
        return lambda page: (tmp_path / "out" / page).read_text(encoding="utf-8")

    return build


# ---- the standard library --------------------------------------------------------------------------------------------
def test_every_page_is_well_formed_and_has_every_id_once(library):
    for path, page in pages(library).items():
        assert not page.wrong, path
        assert len(page.ids) == len(set(page.ids)), path


def test_every_link_leads_somewhere_and_none_to_the_network(library):
    assert not dead_links(library)
    text = "".join(f.read_text(encoding="utf-8") for f in library.rglob("*") if f.is_file())
    assert len(pages(library)) == 2 * len(list(STDLIB.glob("*.dl"))) + 1
    assert not re.search(r"""(src|href|url|fetch|import)\W{1,3}(https?:)?//""", text)


def test_the_search_knows_every_public_name(library):
    wanted = set()
    for file in STDLIB.glob("*.dl"):
        for item in parse(Source(str(file), file.read_text(encoding="utf-8")))[0].items:
            names = [item.name] if isinstance(item, s.Fn | s.Extern | s.Const | s.Struct | s.Enum | s.Alias) else []
            names += [c.name for c in item.constructors] if isinstance(item, s.Enum) else []
            wanted |= {(file.stem, n) for n in names if not n.startswith("_")}
    rows = index(library)
    assert wanted == {(module, name) for name, module, *_ in rows if module}
    assert {name for name, module, kind, *_ in rows if kind == "module"} == {f.stem for f in STDLIB.glob("*.dl")}
    assert len(wanted) > 150


def test_the_source_is_there_line_by_line(library):
    page = pages(library)[library / "source/nn.html"]
    lines = (STDLIB / "nn.dl").read_text(encoding="utf-8").splitlines()
    assert [i for i in page.ids if i.startswith("L")] == [f"L{n}" for n in range(1, len(lines) + 1)]
    assert "".join(f"{n}{line}\n" for n, line in enumerate(lines, 1)) in page.text


# ---- what is said ----------------------------------------------------------------------------------------------------
def test_signatures_are_inferred_and_places_are_right(site):
    read = site(a="## The module.\n\n## Twice it.\nfn twice(x, n: i64 = 2) = exp(x) + exp(x)\n\nconst big = 1.5e3\n")
    page = read("modules/a.html")
    shown = re.sub(r"<[^>]+>", "", page)
    assert "fn twice&lt;a: Float&gt;(x: a[..s], n: i64 = 2) -&gt; a[..s]" in shown
    assert "const big: f64 = 1.5e3" in shown and "Twice it." in shown and "The module." in shown
    assert 'href="../source/a.html#L4">source' in page
    assert "The module." in read("index.html")


def test_private_names_and_tests_are_left_out(site):
    page = site(a='fn _hidden() = 1\nfn seen() = _hidden()\nconst _c = 1\ntest "t" { assert seen() == 1 }\n')(
        "modules/a.html"
    )
    assert 'id="seen"' in page and "_hidden" not in page and "_c" not in page and ">t<" not in page


def test_types_are_links_to_their_modules(site):
    read = site(
        shapes="struct Box { width: f64 }\nenum Kind { Round, Square(Box) }\ntype Boxes = Box[3]\n",
        use="import shapes\nimport shapes { Box }\nfn of(b: Box, k: shapes.Kind) -> Option<Box> = Some(b)\n",
    )
    page = read("modules/use.html")
    assert page.count('href="shapes.html#Box"') == 2 and 'href="shapes.html#Kind"' in page
    assert 'href="#Box"' in read("modules/shapes.html")
    assert 'href="../modules/shapes.html#Box"' in read("source/use.html")


def test_names_in_words_are_links_and_other_words_are_not(site):
    read = site(
        a="## See `g`, `b.h`, `b`, `b.none` and `x`.\nfn f(x: f64) -> f64 = x\nfn g(x: f64) -> f64 = x\n",
        b="fn h(x: f64) -> f64 = x\n",
    )
    page = read("modules/a.html")
    for link in (
        '<a href="#g"><code>g</code></a>',
        '<a href="b.html#h"><code>b.h</code></a>',
        '<a href="b.html"><code>b',
    ):
        assert link in page
    assert "<code>b.none</code> and <code>x</code>" in page


def test_words_are_markdown_and_never_html(site):
    page = site(
        a="""
        ## **Bold** <b>not</b> & _so_.
        ##
        ## | a | b |
        ## | - | - |
        ## | 1 | 2 |
        ##
        ## ```dlang
        ## let x: f64 = "<"
        ## ```
        fn f(x: f64) -> f64 = x
        """
    )("modules/a.html")
    assert "<strong>Bold</strong> &lt;b&gt;not&lt;/b&gt; &amp; <em>so</em>" in page and "<td>1</td>" in page
    assert '<span class="kd">let</span>' in page and "&lt;" in page


def test_names_with_letters_of_all_kinds(site):
    read = site(a="fn θ'(x: f64) -> f64 = x\n## Beside `θ'`.\nfn b(x: f64) -> f64 = x\n")
    assert "%CE%B8%27" in read("modules/a.html") and "θ'" in json.loads(read("search_index.js")[21:-2])[1][0]


def test_modules_in_folders_have_dotted_names(site, tmp_path, write):
    write("fn inner() = 1\n", "src/more/deep.dl")
    read = site(top="fn outer() = 1\n")
    assert "inner" in read("modules/more.deep.html") and ">more.deep<" in read("index.html")


def test_modules_are_found_as_their_names_say(site, write):
    write("struct Box { x: f64 }\nfn make() -> Box = Box(1.0)\n", "src/more/shapes.dl")
    write("import shapes as s\nimport shapes { Box }\n## As `s.make`.\nfn of(b: Box) -> s.Box = b\n", "src/more/use.dl")
    read = site(shapes="struct Box { y: f64 }\nfn make() -> Box = Box(1.0)\n")
    page = read("modules/more.use.html")
    assert page.count('href="more.shapes.html#Box"') == 2 and 'href="more.shapes.html#make"' in page


def test_parts_of_a_module_have_their_titles(site):
    f, g, h, k = (f"fn {name}(x: f64) -> f64 = x\n" for name in "fghk")
    page = site(a=f"{f}# ---- one & two ------\n{g}{h}# --- three ---\n{k}")
    titles = re.findall(r'<p class="part">(.*?)</p>|<section class="entry" id="(.)">', page("modules/a.html"))
    assert ["".join(t) for t in titles] == ["f", "one &amp; two", "g", "h", "three", "k"]


def test_a_long_signature_has_lines(site):
    parameters = ", ".join(f"parameter_{n}: f64[n, {n + 2}] = ones(n, {n + 2})" for n in range(4))
    page = site(a=f"fn f(n: size, {parameters}) -> f64 = 1.0\n")("modules/a.html")
    shown = re.sub(r"<[^>]+>", "", page).replace("&gt;", ">")
    signature = shown[shown.index("fn f(") :].split("\n) -> f64")[0].split("\n")
    assert signature[0] == "fn f(" and len(signature) > 2 and all(len(line) <= 100 for line in signature)


# ---- what goes wrong -------------------------------------------------------------------------------------------------
def test_a_program_with_mistakes_has_no_page(write, dlc, tmp_path):
    write("fn f() = x\n", "src/a.dl"), write("fn g( = 1\n", "src/b.dl"), write("fn h() = 1\n", "src/c.dl")
    code, out, err = dlc("doc", "src", "-o", "out")
    assert code == 1 and out == "" and "src/a.dl:1:" in err and "src/b.dl:1:" in err
    assert not (tmp_path / "out").exists()
    code, out, err = dlc("doc", "--json", "src", "-o", "out")
    assert (
        code == 1 and err == "" and [json.loads(line)["file"] for line in out.splitlines()] == ["src/a.dl", "src/b.dl"]
    )


def test_where_there_is_nothing_to_write_about(write, dlc, tmp_path):
    (tmp_path / "empty").mkdir()
    write("fn f() = 1\n", "a/model.dl"), write("fn f() = 1\n", "b/model.dl")
    assert "E0973" in dlc("doc", tmp_path / "empty")[2]
    assert "E0951" in dlc("doc", "none.dl")[2]
    code, _, err = dlc("doc", "a", "b")
    assert code == 1 and "E0974" in err and "a/model.dl" in err and "b/model.dl" in err
    assert dlc("doc", "a", "a/model.dl", "-o", "out")[0] == 0


def test_a_folder_that_cannot_be_written(write, dlc, tmp_path):
    (tmp_path / "out").write_text("a file")
    code, _, err = dlc("doc", write("fn f() = 1\n"), "-o", "out")
    assert code == 1 and "E0822" in err


@pytest.mark.parametrize("library", ["markdown_it", "pygments.lexer"])
def test_a_library_that_is_missing(write, dlc, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, "dlang.tools.highlighting.pygments_lexer", raising=False)
    from dlang.tools import doc

    doc._lexer.cache_clear()
    code, _, err = dlc("doc", write("fn f() = 1\n"), "-o", "out")
    assert code == 1 and "E0975" in err and "dlang[docs]" in err
