// What can be reached from a node.
#pragma once

#include "graph.hpp"

namespace bench {

// Searches from one node after another.
class Search {
public:
    Search(const Links& links, Node nodes) : links(links), seen(nodes, nodes), queue(nodes + 1) {}

    // Adds a pair for each node that a path leads to.
    void from(Node node, std::vector<Edge>& pairs) {
        Node found = reach(node, node, 0);
        for (Node next = 0; next < found; next++) found = reach(node, queue[next], found);
        const std::size_t before = pairs.size();
        pairs.resize(before + found);
        for (Node at = 0; at < found; at++) pairs[before + at] = {node, queue[at]};
    }

private:
    // Puts what is linked with `by` behind those that were found before. Whether it is new cannot be predicted, and so no
    // branch depends on it: there is room for one more than all.
    Node reach(Node node, Node by, Node found) {
        for (const Node* to = links.begin(by); to != links.end(by); to++) {
            queue[found] = *to;
            found += seen[*to] != node;
            seen[*to] = node;
        }
        return found;
    }

    const Links& links;
    // From which node each was reached last.
    std::vector<Node> seen;
    // What was found from this node.
    std::vector<Node> queue;
};

}  // namespace bench
