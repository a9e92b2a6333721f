"""Triangles, against networkx."""

import networkx
from oracle import Oracle, graphs, write_graph

oracle = Oracle("triangles")
for name, edges in graphs(oracle):
    files = write_graph(oracle, edges)
    # Each is counted at its three nodes.
    expected = sum(networkx.triangles(networkx.Graph(edges)).values()) // 3
    for form in ["join", "adjacency"]:
        oracle.same(f"{name}, {form}", oracle.rows("--form", form, *files, columns=(int,)), [(expected,)])
oracle.finish()
