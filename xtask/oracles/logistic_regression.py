"""Weights that tell two kinds of points apart, against scikit-learn."""

import numpy
from oracle import Oracle
from sklearn.linear_model import LogisticRegression

oracle = Oracle("logistic_regression")
for count, apart in [(40, 0.5), (300, 1.0), (1000, 1.5)]:
    rows = []
    for at in range(count):
        kind = at % 2
        x, y = (oracle.random.gauss(apart * kind * side, 1.2) for side in (1.0, -0.7))
        rows.append((x, y, kind))
    file = oracle.write("points.csv", "".join(f"{x!r},{y!r},{kind}\n" for x, y, kind in rows))
    rows = numpy.array(rows)
    # Without any penalty, as far as it goes: the only point at which the gradient is nothing.
    model = LogisticRegression(C=numpy.inf, tol=1e-12, max_iter=10_000).fit(rows[:, :2], rows[:, 2])
    expected = {"x": model.coef_[0][0], "y": model.coef_[0][1], "bias": model.intercept_[0]}
    found = dict(oracle.rows("--iterations", 20_000, "--rate", 1, file, columns=(str, float)))
    oracle.close(f"{count} points, {apart} apart", found, expected, 1e-5, 1e-6)

bad = oracle.write("bad.csv", "1,2,0\n1,2,3\n")
oracle.fails("a kind that is none", bad, said=f"{bad}:2: ")
oracle.finish()
