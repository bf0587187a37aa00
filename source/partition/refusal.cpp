#include "partition/refusal.hpp"

namespace vkfuse::partition {

using ir::NodeId;

namespace {

bool is_digit_at(const std::string& text, std::size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

std::string with_numbers(const std::string& text, const std::function<NodeId(NodeId)>& number) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    all += text[i];
    if (text[i] != '%' || !is_digit_at(text, i + 1)) continue;
    NodeId id = 0;
    while (is_digit_at(text, i + 1)) id = id * 10 + static_cast<NodeId>(text[++i] - '0');
    all += std::to_string(number(id));
  }
  return all;
}

}  // namespace

Refusal renumbered(Refusal refusal, const std::function<NodeId(NodeId)>& number) {
  for (NodeId& id : refusal.nodes) id = number(id);
  refusal.stated.message = with_numbers(refusal.stated.message, number);
  return refusal;
}

}  // namespace vkfuse::partition
