package bench.nexmark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.java.tuple.Tuple;

/** The rows that are greatest by one of their fields: all of them, where several are as great. */
final class Greatest<T extends Tuple> implements AggregateFunction<T, List<T>, List<T>>, Serializable {
    private static final long serialVersionUID = 1;

    private final int field;

    Greatest(int field) {
        this.field = field;
    }

    @Override
    public List<T> createAccumulator() {
        return new ArrayList<>(1);
    }

    @Override
    public List<T> add(T row, List<T> best) {
        if (!best.isEmpty()) {
            long most = best.get(0).<Long>getField(field);
            long offered = row.<Long>getField(field);
            if (offered < most) {
                return best;
            }
            if (offered > most) {
                best.clear();
            }
        }
        best.add(row);
        return best;
    }

    @Override
    public List<T> getResult(List<T> best) {
        return best;
    }

    @Override
    public List<T> merge(List<T> a, List<T> b) {
        for (T row : b) {
            add(row, a);
        }
        return a;
    }
}
