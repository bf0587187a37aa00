// Instruction peaks in the table and in the JSON.
#include "report.hpp"

namespace vkfuse::bench {

using nlohmann::json;

std::string peak_name(Instruction instruction) { return fmt::format("peak {}", name_of(instruction)); }

std::string table_line(const PeakResult& result) {
  const std::string name = peak_name(result.instruction);
  if (result.outcome == Outcome::checked)
    return fmt::format("{:<{}} {:>10} {}", name, kCaseWidth, "right", result.kernel);
  if (result.outcome != Outcome::measured) return not_measured(name, result.outcome, result.detail);
  return fmt::format("{:<{}} {:>10.1f} Gop/s", name, kCaseWidth, result.gops());
}

json to_json(const PeakResult& result) {
  json object = {{"name", peak_name(result.instruction)},
                 {"case", peak_name(result.instruction)},
                 {"group", kPeakGroup},
                 {"instruction", name_of(result.instruction)},
                 {"dtype", vkfuse::name_of(dtype_of(result.instruction))},
                 {"outcome", name_of(result.outcome)},
                 {"detail", result.detail},
                 {"row_seconds", result.seconds}};
  const bool measured = result.outcome == Outcome::measured;
  object["checked"] = measured || result.outcome == Outcome::checked;
  if (!object["checked"]) return object;
  object["kernel"] = result.kernel;
  object["operations"] = result.operations;
  if (!measured) return object;
  object["gops"] = result.gops();
  object["peak_us"] = rounded(result.times.median);
  object["peak_p10"] = rounded(result.times.p10);
  object["peak_p90"] = rounded(result.times.p90);
  object["peak_n"] = result.times.n();
  object["visits"] = result.visits;
  json samples = json::array();
  for (double us : result.times.samples) samples.push_back(rounded(us));
  object["samples"]["peak"] = std::move(samples);
  return object;
}

}  // namespace vkfuse::bench
