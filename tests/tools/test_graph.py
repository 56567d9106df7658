"""`dlc graph`: what is in it, and the files that it writes."""

import re
import shutil

import pytest

from dlang.diagnostics import Source
from dlang.driver import check
from dlang.tools.graph import graph_of

TEXT = """
fn loss(w: f64[k], x: f64[n, k], y: f64[n]) -> f64 = mean((x @ w - y) ** 2)
fn steps(x: f64[n], k: i64) -> f64[n] {
  var y = x
  for i < k { y = [0.5 * y[n - 1 - j] + x[j] for j < n] }
  while sum(y) > 100.0 { y = y / 2.0 }
  y
}
fn choose(x: f64[n]) -> f64 = if sum(x) > 0.0 { sum(exp(x)) } else { 0.0 }
fn depth(n: i64) -> i64 = if n == 0 or n < 0 { 0 } else { 1 + depth(n - 1) }
fn pick(x: f64[n], k: i64) -> f64 = x[k]
"""


def drawn(text, function=None, gradient=False, stage="opt"):
    return graph_of(check(Source("fit.dl", text)), function, gradient, stage)


def frames(cluster):
    """The labels of frames, by how deep they are."""
    return [(c.label, frames(c)) for c in cluster.inner]


def labels(cluster):
    own = [re.search(r'label="((?:[^"\\]|\\.)*)"', node)[1] for node in cluster.nodes]
    return own + [label for inner in cluster.inner for label in labels(inner)]


def nodes(cluster):
    return [n.split()[0] for n in cluster.nodes] + [n for inner in cluster.inner for n in nodes(inner)]


@pytest.mark.parametrize("stage", ["opt", "loops"])
@pytest.mark.parametrize("function", [None, "loss", "steps", "choose", "depth", "pick"])
def test_every_edge_is_between_nodes_and_every_node_has_one(function, stage):
    graph = drawn(TEXT, function, stage=stage)
    known = nodes(graph.root)
    assert len(set(known)) == len(known)
    ends = {end for edge in graph.edges for end in edge}
    assert ends <= set(known)
    if stage == "opt":
        assert all(n in ends or "empty" in label for n, label in zip(known, labels(graph.root), strict=True))


def test_a_fused_kernel_is_a_frame_and_a_product_is_a_node():
    graph = drawn(TEXT, "loss")
    assert frames(graph.root) == [("for i.8 in 0..n.1  fit.dl:2", [])]
    assert {"n.1\\ni64", "w\\nf64[n.0]"} <= set(labels(graph.root))  # of the two sizes it is the second
    assert {"product [0, 1] [1] -> [0]\\nf64[n.1]", "sub\\nf64", "mul\\nf64", "result\\nf64"} <= set(labels(graph.root))
    (kernel,) = graph.root.inner
    heads = [label.split("\\n")[0] for label in labels(kernel)]
    assert heads == ["read [i.8]", "read [i.8]", "sub", "mul", "keep [] [] sum"]


def test_values_flow_from_the_parameters_to_the_result():
    graph = drawn(TEXT, "loss")
    by_label = dict(zip(labels(graph.root), nodes(graph.root), strict=True))
    reached, open = set(), [by_label["w\\nf64[n.0]"]]
    while open:
        node = open.pop()
        reached.add(node)
        open += [target for source, target in graph.edges if source == node and target not in reached]
    assert by_label["result\\nf64"] in reached and by_label["y\\nf64[n.1]"] not in reached


def test_a_gradient_has_the_forward_and_the_backward_pass():
    products = [label for label in labels(drawn(TEXT, "loss", gradient=True).root) if label.startswith("product")]
    assert len(products) == 2 and any(label.endswith("f64[n.0]") for label in products)


def test_loops_branches_and_calls_are_seen():
    graph = drawn(TEXT, "steps")
    heads = [label for label, _ in frames(graph.root)]
    assert any(h.endswith("in order  fit.dl:5") for h in heads) and "while  fit.dl:6" in heads
    assert any(graph.edges.values())  # what an iteration hands to the next
    graph = drawn(TEXT, "choose")
    assert "if  fit.dl:9" in [label for label, _ in frames(graph.root)]
    assert any(label.startswith("check E0801") for label in labels(drawn(TEXT, "pick").root))
    assert any(label.startswith("call") for label in labels(drawn(TEXT, "depth").root))


def test_loop_nests_have_arrays_in_memory():
    graph = drawn(TEXT, "loss", stage="loops")
    assert any("allocate f64[n." in label for label in labels(graph.root)) and 'shape="cylinder"' in graph.text()
    assert any(label.startswith(("loop ", "parallel ")) for label, _ in frames(graph.root))


# ---- the command -----------------------------------------------------------------------------------------------------
def test_dot_is_printed_or_written(write, dlc, tmp_path):
    file = write(TEXT, "fit.dl")
    code, out, err = dlc("graph", file, "--fn", "loss")
    assert (code, err) == (0, "") and out.startswith("digraph program {") and out.endswith("}\n")
    assert dlc("graph", file, "--fn", "loss", "-o", "loss.dot") == (0, "", "")
    assert (tmp_path / "loss.dot").read_text() == out
    assert out.count("{") == out.count("}")


@pytest.mark.skipif(shutil.which("dot") is None, reason="there is no Graphviz")
@pytest.mark.parametrize("options", [[], ["--fn", "loss", "--grad"], ["--stage", "loops"]])
def test_graphviz_draws_it(write, dlc, tmp_path, options):
    assert dlc("graph", write(TEXT, "fit.dl"), *options, "-o", "graph.svg") == (0, "", "")
    assert (tmp_path / "graph.svg").read_text().rstrip().endswith("</svg>")


def test_what_cannot_be_drawn_is_said(write, dlc, monkeypatch, tmp_path):
    file = write(TEXT, "fit.dl")
    assert "E0955" in dlc("graph", file, "--fn", "lost")[2]
    assert "E0955" in dlc("graph", file, "--grad")[2]
    assert "E0996" in dlc("graph", file, "-o", "graph.gif")[2]
    assert "E0822" in dlc("graph", file, "-o", "no/graph.dot")[2]
    assert dlc("graph", file, "--fn", "depth", "--grad")[0] == 1
    assert dlc("graph", write("fn f( = 1\n", "bad.dl"))[0] == 1
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = dlc("graph", file, "-o", "graph.svg")
    assert code == 1 and "E0995" in err and not (tmp_path / "graph.svg").exists()
    (tmp_path / "dot").write_text("#!/bin/sh\necho no fonts >&2\nexit 1\n")
    (tmp_path / "dot").chmod(0o755)
    assert "Graphviz cannot draw this: no fonts" in dlc("graph", file, "-o", "graph.svg")[2]


OUTSIDE = """
extern "python:strange.f" fn f(x: f64) -> f64 ! io
extern "python:nowhere.g" fn g(x: f64[n]) -> f64[?]
extern "c:./nowhere.so:h" fn h(x: f64) -> f64
fn all(x: f64[n]) -> f64 ! io = f(sum(x)) + sum(g(x)) + h(1.0)
fn main() { print(all([1.0])) }
"""


@pytest.mark.parametrize("options", [[], ["--fn", "all"], ["--stage", "loops"]])
def test_nothing_is_imported_or_loaded_for_a_graph(write, dlc, tmp_path, options):
    (tmp_path / "strange.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef f(x): return x\n")
    code, out, err = dlc("graph", write(OUTSIDE, "outside.dl"), *options)
    assert (code, err) == (0, "") and out.startswith("digraph program {")
    assert "loops" in options or "nowhere.g" in out
    assert not (tmp_path / "ran").exists()
    assert dlc("run", write(OUTSIDE, "outside.dl"))[0] == 1
