// The plan as a page: what it draws is data in the page, and source/plan/page.html is the rest.
#include <nlohmann/json.hpp>

#include "plan/plan.hpp"

namespace vkfuse::plan {

/// The text of source/plan/page.html, in a file that the build makes.
std::string_view page_template();

namespace {

constexpr std::string_view kMark = "/*PLAN*/null";

std::int64_t bytes_of(const Plan& plan, ir::NodeId id, const SymbolValues& symbols) {
  const TensorType& type = plan.graph.node(id).type;
  const auto sizes = resolve(type.shape, symbols);
  const auto bytes = sizes ? byte_count(type.dtype, *sizes) : Result<std::int64_t>(0);
  return bytes ? *bytes : 0;
}

/// Every value that a kernel reads, computes or stores.
nlohmann::ordered_json values_json(const Plan& plan, const SymbolValues& symbols) {
  std::vector<bool> shown(plan.graph.size(), false);
  for (const PlannedKernel& step : plan.steps) {
    for (ir::NodeId id : step.segment.members) shown[id] = true;
    for (ir::NodeId id : step.segment.reads) shown[id] = true;
  }
  std::map<ir::NodeId, std::string> outputs;
  for (const ir::Output& output : plan.graph.outputs()) outputs[output.value] = output.name;
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (ir::NodeId id = 0; id < plan.graph.size(); ++id) {
    if (!shown[id]) continue;
    const ir::Node& node = plan.graph.node(id);
    nlohmann::ordered_json value{{"op", op_text(node)},
                                 {"type", vkfuse::to_text(node.type)},
                                 {"bytes", bytes_of(plan, id, symbols)},
                                 {"operands", node.operands}};
    if (const auto* input = std::get_if<ir::InputPayload>(&node.payload)) value["input"] = input->name;
    if (outputs.count(id) != 0) value["output"] = outputs.at(id);
    if (node.op->cls == ops::OpClass::view || node.op->cls == ops::OpClass::generate) value["free"] = true;
    all[std::to_string(id)] = std::move(value);
  }
  return all;
}

}  // namespace

Result<std::string> to_html(const Plan& plan, const Result<Plan>& unfused, const SymbolValues& symbols,
                            const CompiledSteps& compiled, const Measured& measured) {
  VKF_TRY(text, to_json(plan, unfused, symbols, compiled.figures, measured));
  auto json = nlohmann::ordered_json::parse(text);
  json["values"] = values_json(plan, symbols);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    auto& segment = json["segments"][i];
    segment["members"] = plan.steps[i].segment.members;
    segment["inputs"] = plan.steps[i].segment.reads;
    segment["outputs"] = plan.steps[i].segment.stores;
    if (i < compiled.code.size()) segment["glsl"] = compiled.code[i];
  }
  std::string data = json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  // Inside a script element the only texts that could end it, or begin another one.
  for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos;) data.replace(at, 2, "<\\/");
  for (std::size_t at = 0; (at = data.find("<!--", at)) != std::string::npos;) data.replace(at, 4, "<\\u0021--");
  std::string page(page_template());
  page.replace(page.find(kMark), kMark.size(), data);
  return page;
}

}  // namespace vkfuse::plan
