// docs/ops.md, written from the rows.
#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "ops/op.hpp"

namespace vkfuse::ops {

namespace {

struct Group {
  TypeSet types;
  const char* name;
};
constexpr Group kGroups[] = {{kAll, "all"},       {kNumbers, "numbers"},   {kFloats, "floats"}, {kIntegers, "integers"},
                             {kSigned, "signed"}, {kUnsigned, "unsigned"}, {kBool, "bool"}};

std::string types_text(TypeSet types) {
  std::string all;
  TypeSet left = types;
  for (const Group& group : kGroups) {
    if ((left & group.types) != group.types) continue;
    all += (all.empty() ? "" : ", ") + std::string(group.name);
    left &= static_cast<TypeSet>(~group.types);
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    if ((left & bit(static_cast<DType>(i))) != 0)
      all += (all.empty() ? "" : ", ") + std::string(name_of(static_cast<DType>(i)));
  }
  return all;
}

const char* signature_text(const OpRow& row) {
  switch (row.signature) {
    case Signature::same: return "T to T";
    case Signature::compare: return "T to bool";
    case Signature::select: return "bool, T, T to T";
    case Signature::convert: return "T to the dtype given";
    case Signature::generate: return "the dtype given";
    case Signature::indexed: return row.arity == 3 ? "T, positions, T to T" : "T, positions to T";
    case Signature::position: return "T to i32";
    case Signature::stated: return "any to the dtype stated";
  }
  return "";
}

/// The page's sections, each with the classes whose rows it lists, in the order of the table.
struct Section {
  const char* title;
  const char* text;
  std::vector<OpClass> classes;
};

std::vector<Section> sections() {
  return {
      {"What is given", "", {OpClass::input, OpClass::constant, OpClass::generate}},
      {"Elementwise",
       "Operands broadcast as in NumPy. Vulkan has no exponential, logarithm, sine and the like of f64: those are\n"
       "functions of vkfuse, within 2 to 4 units of the last place (2^-52 of the result).",
       {OpClass::elementwise, OpClass::convert}},
      {"Views",
       "Each element is one of an operand's. A kernel reads through a view; nothing is moved for it.",
       {OpClass::view}},
      {"Gathers and scatters",
       "Positions are data of i32, u32 or i64 that count from 0; nothing is read or written out of range.",
       {OpClass::gather, OpClass::scatter, OpClass::update}},
      {"Reductions", "`axes=[...]`, ascending: those that the reduction removes.", {OpClass::reduce}},
      {"Contractions", "`batch_a=[...] batch_b=[...] contract_a=[...] contract_b=[...]`.", {OpClass::contraction}},
      {"Scans",
       "`axis=K exclusive=B reverse=B`: the reduction of the elements up to each one, without itself where exclusive, "
       "from "
       "the last one where reverse.",
       {OpClass::scan}},
      {"Sorts", "", {OpClass::sort}},
  };
}

std::string arity_text(int arity) { return arity == kVariadic ? "1 or more" : std::to_string(arity); }

}  // namespace

std::string table_markdown() {
  std::string text =
      "# Ops\n\nWritten from the op table by the unit tests with VKFUSE_UPDATE_DOCS=1. Operands have one dtype T "
      "unless a row "
      "says otherwise;\n16-bit floats are computed in f32. What Vulkan leaves open is fixed here and enforced in the "
      "shaders. "
      "[text-ir.md](text-ir.md)\nshows how attributes are written.\n";
  for (const Section& section : sections()) {
    text += fmt::format("\n## {}\n\n", section.title);
    if (*section.text != '\0') text += fmt::format("{}\n\n", section.text);
    text += "| op | operands | T | types | meaning |\n| --- | --- | --- | --- | --- |\n";
    for (const OpRow& row : table()) {
      if (std::find(section.classes.begin(), section.classes.end(), row.cls) == section.classes.end()) continue;
      text += fmt::format("| {} | {} | {} | {} | {} |\n", row.name, arity_text(row.arity), types_text(row.types),
                          signature_text(row), row.doc);
    }
  }
  text +=
      "\n## Of the user's own\n\nTheir GLSL is given with them; include/vkfuse/custom.hpp says what it may be.\n\n"
      "| op | operands | T | types | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const OpRow& row : custom_rows()) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.name, arity_text(row.arity), types_text(row.types),
                        signature_text(row), row.doc);
  }
  text +=
      "\n## Between ranks\n\n`ranks=N stride=N` name the group: ranks that are `stride` apart, N of them; a job of "
      "more ranks\nhas several groups side by side. [parallel.md](parallel.md) says how programs of several ranks "
      "run.\n\n"
      "| op | operands | T | types | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const OpRow& row : collective_rows()) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.name, arity_text(row.arity), types_text(row.types),
                        signature_text(row), row.doc);
  }
  return text;
}

}  // namespace vkfuse::ops
