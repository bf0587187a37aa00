#include <limits>

#include "support/structured.hpp"

namespace vkfuse::test {

namespace {

double special_value(Random& random) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {inf,      -inf,      std::nan(""), 0.0,     -0.0,   1.0,     -1.0,    0x1p-126,
                                      0x1p-130, -0x1p-140, 65504.0,      65520.0, 3.4e38, -3.4e38, 0x1p-24, 0x1p-15};
  return random.pick(values);
}

/// 24 of an input named "index24" or "index24 b"; else 0.
std::size_t positions_below(const std::string& name) {
  return name.rfind("index", 0) == 0 ? std::strtoull(name.c_str() + 5, nullptr, 10) : 0;
}

}  // namespace

Case random_case(std::uint64_t seed, const CaseOptions& options) {
  if (options.every_class) return AnyGenerator(seed, options).run();
  return Generator(seed, options).run();
}

Data data_for(const Case& one) {
  Data data;
  data.symbols = one.symbols;
  for (ir::NodeId id : one.graph.inputs()) {
    const ir::Node& node = one.graph.node(id);
    const std::string& name = std::get<ir::InputPayload>(node.payload).name;
    Random random(seed_of(one.seed, name));
    std::vector<std::byte>& bytes = data.inputs[name];
    const std::int64_t count = must(element_count(must(resolve(node.type.shape, one.symbols))));
    const std::size_t positions = positions_below(name);
    for (std::int64_t i = 0; i < count; ++i) {
      if (positions > 0) {
        ir::encode_int(node.type.dtype, static_cast<std::int64_t>(random.below(positions)), bytes);
      } else if (is_float(node.type.dtype)) {
        ir::encode(node.type.dtype, one.special && random.chance(15) ? special_value(random) : random.between(-4, 4),
                   bytes);
      } else if (node.type.dtype == DType::boolean) {
        ir::encode_int(node.type.dtype, random.chance(50) ? 1 : 0, bytes);
      } else {
        const bool small = random.chance(60);
        const std::int64_t wide = static_cast<std::int64_t>(random.word()) << 32 | random.word();
        ir::encode_int(node.type.dtype, small ? static_cast<std::int64_t>(random.below(17)) - 8 : wide, bytes);
      }
    }
  }
  return data;
}

}  // namespace vkfuse::test
