"""Connected components, against networkx."""

import networkx
from oracle import Oracle, graphs, write_graph

oracle = Oracle("connected_components")
for name, edges in graphs(oracle):
    files = write_graph(oracle, edges)
    expected = [
        (node, min(component))
        for component in networkx.connected_components(networkx.Graph(edges))
        for node in component
    ]
    for form in ["labels", "delta"]:
        oracle.same(f"{name}, {form}", oracle.rows("--form", form, *files, columns=(int, int)), expected)
oracle.finish()
