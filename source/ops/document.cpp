// docs/ops.md, written from the rows.
#include "base/error.hpp"
#include "ops/op.hpp"

namespace vkfuse::ops {

namespace {

struct Group {
  TypeSet types;
  const char* name;
};
constexpr Group kGroups[] = {{kAll, "all"},           {kNumbers, "numbers"},  {kFloats, "floats"},
                             {kIntegers, "integers"}, {kSigned, "signed"},    {kUnsigned, "unsigned"},
                             {kBool, "bool"},         {kFloats & static_cast<TypeSet>(~bit(DType::f64)), "f32 f16 bf16"}};

std::string types_text(TypeSet types) {
  std::string all;
  TypeSet left = types;
  for (const Group& group : kGroups) {
    if ((left & group.types) != group.types) continue;
    all += (all.empty() ? "" : ", ") + std::string(group.name);
    left &= static_cast<TypeSet>(~group.types);
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    if ((left & bit(static_cast<DType>(i))) != 0) all += (all.empty() ? "" : ", ") + std::string(name_of(static_cast<DType>(i)));
  }
  return all;
}

const char* signature_text(Signature signature) {
  switch (signature) {
    case Signature::same: return "T to T";
    case Signature::compare: return "T to bool";
    case Signature::select: return "bool, T, T to T";
    case Signature::convert: return "T to the dtype given";
    case Signature::generate: return "the dtype given";
  }
  return "";
}

}  // namespace

std::string table_markdown() {
  std::string text =
      "# Ops\n\nWritten from the op table by the unit tests with VKFUSE_UPDATE_DOCS=1. Operands broadcast as in NumPy and have "
      "one dtype T;\n16-bit floats are computed in f32. What Vulkan leaves open is fixed here and enforced in the "
      "shaders.\n\n| op | operands | T | types | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const OpRow& row : table()) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.name, row.arity, types_text(row.types), signature_text(row.signature), row.doc);
  }
  return text;
}

}  // namespace vkfuse::ops
