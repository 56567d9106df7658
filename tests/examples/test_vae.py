"""A variational autoencoder describes digits that it has not seen in fewer words."""

from __future__ import annotations

from tests.examples.running import numbers, printed, thorough


@thorough
def test_unseen_digits_cost_less_after_training() -> None:
    out = printed("vae", "--epochs", "20", "--seed", "1")
    before = numbers(out, r"before: loss (\d+\.\d+)")[0]
    after = numbers(out, r"epoch 20: loss (\d+\.\d+)")[0]
    assert before > 44.0 and after < 26.0
    assert out.count("##") > 100
