"""Ranks, against networkx."""

import networkx
import numpy
from oracle import Oracle, graphs, write_graph

oracle = Oracle("pagerank")
# Integers are rounded down at every division: to billionths of what a node begins with, for each edge.
FORMS = [("state", 1e-9), ("join", 1e-9), ("integer", 1e-5)]


def after(graph, rounds):
    """The ranks after so many rounds: powers of the matrix, in which every edge counts."""
    if not graph:
        return {}
    nodes = list(graph)
    matrix = networkx.google_matrix(graph, alpha=0.85, nodelist=nodes)
    ranks = numpy.full(len(nodes), 1 / len(nodes))
    for _ in range(rounds):
        ranks = ranks @ matrix
    return dict(zip(nodes, ranks))


for name, edges in graphs(oracle):
    files = write_graph(oracle, edges)
    graph = networkx.MultiDiGraph(edges)
    rounds = oracle.random.choice([1, 2, 5, 20])
    if len(graph) <= 500:
        expected = after(graph, rounds)
    else:
        rounds = 100
        expected = networkx.pagerank(graph, alpha=0.85, max_iter=500, tol=1e-14)
    for form, relative in FORMS:
        found = dict(oracle.rows("--form", form, "--iterations", rounds, *files, columns=(int, float)))
        relative = relative if len(graph) <= 500 else max(relative, 1e-6)
        oracle.close(f"{name}, {form}, {rounds} rounds", found, expected, relative)

# Where it does not change any more.
edges = [(oracle.random.randrange(40), oracle.random.randrange(50)) for _ in range(120)]
expected = networkx.pagerank(networkx.MultiDiGraph(edges), alpha=0.85, max_iter=1000, tol=1e-13)
files = write_graph(oracle, edges)
for form, relative in FORMS:
    found = dict(oracle.rows("--form", form, "--iterations", 150, *files, columns=(int, float)))
    oracle.close(f"settled, {form}", found, expected, relative)

bad = oracle.write("bad", "1 2\n# fine\n1 two\n")
oracle.fails("a line that is no edge", bad, said=f"{bad}:3: ")
oracle.finish()
