"""From program to program, in the core IR of `dlang/ir/anf.py`: what the value is stays, what it costs falls.

Each pass is a file with one public function of that name; `dlang/pipeline.py` alone orders them, with derivatives in
between. A pass walks the program once or a fixed number of times; none knows a back end.
"""
