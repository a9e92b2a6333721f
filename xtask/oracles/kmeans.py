"""Centres of clusters, against scikit-learn."""

import numpy
from oracle import Oracle
from sklearn.cluster import KMeans

oracle = Oracle("kmeans")
for count, k, rounds in [(1, 1, 3), (50, 1, 2), (200, 3, 1), (200, 3, 100), (1000, 8, 4), (3000, 5, 300)]:
    centres = [(oracle.random.uniform(-50, 50), oracle.random.uniform(-50, 50)) for _ in range(k)]
    points = []
    for _ in range(count):
        x, y = oracle.random.choice(centres)
        points.append((oracle.random.gauss(x, 8), oracle.random.gauss(y, 8)))
    file = oracle.write("points.csv", "".join(f"{x!r},{y!r}\n" for x, y in points))
    points = numpy.array(points)
    model = KMeans(k, init=points[:k], n_init=1, max_iter=rounds, tol=0, algorithm="lloyd").fit(points)
    found = oracle.rows("--k", k, "--iterations", rounds, file, columns=(float, float))
    numbers = lambda rows: {(at, axis): value for at, row in enumerate(rows) for axis, value in zip("xy", row)}
    name = f"{count} points, {k} clusters, {rounds} rounds"
    oracle.close(name, numbers(found), numbers(model.cluster_centers_), 1e-9, 1e-9)
oracle.finish()
