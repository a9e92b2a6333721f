// What can be reached from a node.
#pragma once

#include "graph.hpp"

namespace bench {

// Searches from one node after another.
class Search {
public:
    explicit Search(const Links& links, Node nodes) : links(links), seen(nodes, nodes) {}

    // Adds a pair for each node that a path leads to. The pairs are also the queue of the search.
    void from(Node node, std::vector<Edge>& pairs) {
        std::size_t next = pairs.size();
        reach(node, node, pairs);
        for (; next < pairs.size(); next++) reach(node, pairs[next].to, pairs);
    }

private:
    void reach(Node node, Node by, std::vector<Edge>& pairs) {
        for (const Node* to = links.begin(by); to != links.end(by); to++) {
            if (seen[*to] != node) {
                seen[*to] = node;
                pairs.push_back({node, *to});
            }
        }
    }

    const Links& links;
    // From which node each was reached last.
    std::vector<Node> seen;
};

}  // namespace bench
