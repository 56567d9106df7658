"""From program to program, in the core IR of `dlang/ir/anf.py`: what the value is stays, what it costs falls.

Each pass is a file with one public function of that name; `dlang/pipeline.py` alone orders them, with derivatives in
between. A pass walks the program once or a fixed number of times; none knows a back end.

A pass gives back the functions, blocks and operations that it does not change, so facts about a block
(`Block.mentions`) serve many passes, and tidying for the second time is left out where nothing changed since the first.

Before derivatives the program is brought into the *normal form* (`distribute.py`): every comprehension is a perfect
nest of scalar code, and inner reductions are arrays over just the axes that they depend on. This is what makes
derivatives cheap: the adjoint of a perfect nest visits the same points as the nest, so a gradient costs a small
constant times its function. Otherwise an inner reduction would be differentiated once for each point around it.
Expensive code that is no scalar code obeys the same law of sharing (`lifting.py`, `ir/sharing.py`): it runs once for
each point of the axes that it depends on, and `[cumsum(x[i])[j] for i, j]` adds up each row once. The law is verified
from the normal form on. The other passes there prove indices in range, so that they are read without a check
(`index_checks.py`), give loops one form (`counted_loops.py`, `vectorise_loops.py`), and move code out of loops before
it could be saved in every iteration (`hoist.py`).

Behind derivatives, products are recognised before fusion could hide them (`contractions.py`), comprehensions are merged
(`fuse.py`), chains along an axis are done in blocks or row by row (`blocking.py`, `fuse_outer_axis.py`), and
`ownership.py` inserts at last the copies without which an update would be seen elsewhere.

Recursion that changes an array copies nothing: a function whose result is a parameter, changed, takes it over and
returns it in its place (`ownership.py`), and one that changes a parameter which it does not return is lent what its
caller has no more use for (`ownership.py`).
"""
