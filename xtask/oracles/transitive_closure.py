"""The transitive closure, against networkx."""

import networkx
from oracle import Oracle, graphs, write_graph

oracle = Oracle("transitive_closure")
for name, edges in graphs(oracle, large=False):
    files = write_graph(oracle, edges)
    expected = networkx.transitive_closure(networkx.DiGraph(edges), reflexive=False).edges
    for form in ["delta", "adjacency"]:
        oracle.same(f"{name}, {form}", oracle.rows("--form", form, *files, columns=(int, int)), expected)
oracle.finish()
