package bench;

import org.apache.flink.api.common.functions.AggregateFunction;

/** How many records there are. */
public final class Count<T> implements AggregateFunction<T, Long, Long> {
    private static final long serialVersionUID = 1;

    @Override
    public Long createAccumulator() {
        return 0L;
    }

    @Override
    public Long add(T record, Long count) {
        return count + 1;
    }

    @Override
    public Long getResult(Long count) {
        return count;
    }

    @Override
    public Long merge(Long a, Long b) {
        return a + b;
    }
}
