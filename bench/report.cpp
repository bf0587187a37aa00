#include "report.hpp"

namespace vkfuse::bench {

namespace {

using nlohmann::json;

/// At most seven characters from nanoseconds to seconds.
std::string microseconds(double us) {
  if (us < 1000) return fmt::format("{:.2f}", us);
  return us < 100000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string not_measured(const Row& row, Outcome outcome, const std::string& detail) {
  const char* word = outcome == Outcome::wrong ? "WRONG" : outcome == Outcome::skipped ? "skipped" : "failed";
  return fmt::format("{:<19} {}: {}", row.name, word, detail);
}

void add_times(json& object, const std::string& name, const Measured& measured) {
  object[name + "_us"] = measured.times.median;
  object[name + "_p10"] = measured.times.p10;
  object[name + "_p90"] = measured.times.p90;
  object[name + "_n"] = measured.times.n;
  object["kernels_" + name] = measured.kernels;
  object["compile_ms_" + name] = measured.compile_ms;
  object["pipeline_ms_" + name] = measured.pipeline_ms;
  object["create_ms_" + name] = measured.create_ms;
  object["arena_bytes_" + name] = measured.arena_bytes;
}

const char* name_of(Outcome outcome) {
  constexpr const char* names[] = {"measured", "checked", "wrong", "skipped", "failed"};
  return names[static_cast<int>(outcome)];
}

json to_json(const SweepPoint& point) {
  const schedule::Schedule& schedule = point.schedule;
  json object = {{"schedule", point.text},  {"kind", schedule::name_of(schedule.kind)}, {"workgroup", schedule.workgroup},
                 {"vector_bytes", widest_access(schedule)}, {"us", point.times.median}, {"p10", point.times.p10},
                 {"p90", point.times.p90},  {"n", point.times.n}};
  if (schedule.kind != schedule::Template::rows) {
    object["items_in_flight"] = schedule.items_in_flight;
    return object;
  }
  object["row_lanes"] = schedule.row_lanes;
  object["column_lanes"] = schedule.column_lanes;
  object["trips"] = schedule.trips;
  object["persistent"] = schedule.persistent;
  object["online"] = schedule.online;
  object["parts"] = schedule.parts;
  return object;
}

}  // namespace

Result<json> environment(const Session& session) {
  const vulkan::DeviceInfo& info = session.context->device()->info();
  VKF_TRY(target, session.context->target({}));
  const DeviceDescription device = runtime::describe(session.context->index(), info, target.caps);
  json rungs = json::object();
  for (int i = 0; i < kRungCount; ++i) {
    VKF_TRY(missing, session.context->missing(static_cast<Rung>(i)));
    rungs[std::string(vkfuse::name_of(static_cast<Rung>(i)))] = missing.empty() ? "yes" : missing;
  }
  return json{{"device", device.name},       {"driver", device.driver}, {"uuid", device.uuid},
              {"api", device.api},           {"type", device.type},     {"memory_bytes", device.memory_bytes},
              {"limits", device.limits},     {"features", device.features},
              {"rungs", rungs},              {"vkfuse", VKFUSE_VERSION}, {"suite", session.quick ? "quick" : "full"}};
}

std::string table_head(bool check_only) {
  if (check_only) return fmt::format("{:<19} {:>16} {:>7} {:>7} {:>5} {:>7}", "row", "size", "kernels", "samples", "error", "seconds");
  return fmt::format("{:<19} {:>16} {:>7} {:>8} {:>8} {:>8} {:>5} {:>5} {:>5}", "row", "size", "kernels", "fused us", "unfused", "copy us",
                     "GB/s", "copy", "error");
}

std::string table_line(const RowResult& result) {
  if (result.outcome != Outcome::measured && result.outcome != Outcome::checked) return not_measured(*result.row, result.outcome, result.detail);
  const std::string kernels = fmt::format("{}/{}", result.fused.kernels, result.unfused ? std::to_string(result.unfused->kernels) : "-");
  const std::string head = fmt::format("{:<19} {:>16} {:>7}", result.row->name, result.size, kernels);
  if (result.outcome == Outcome::checked) return fmt::format("{} {:>7} {:>5.2f} {:>7.2f}", head, result.samples, result.max_ratio, result.seconds);
  const double gb_s = result.gb_s();
  return fmt::format("{} {:>8} {:>8} {:>8} {:>5} {:>4.0f}% {:>5.2f}", head, microseconds(result.fused.times.median),
                     result.unfused ? microseconds(result.unfused->times.median) : "-", microseconds(result.copy.times.median),
                     gb_s < 100 ? fmt::format("{:.1f}", gb_s) : fmt::format("{:.0f}", gb_s), result.copy_percent(), result.max_ratio);
}

json to_json(const RowResult& result) {
  json object = {{"name", result.row->name},   {"group", result.row->group}, {"dtype", vkfuse::name_of(result.row->dtype)},
                 {"size", result.size},        {"outcome", name_of(result.outcome)}, {"detail", result.detail}};
  object["row_seconds"] = result.seconds;
  const bool measured = result.outcome == Outcome::measured;
  object["checked"] = measured || result.outcome == Outcome::checked;
  if (!object["checked"]) return object;
  object["max_error_over_bound"] = result.max_ratio;
  object["samples_checked"] = result.samples;
  object["bytes"] = result.bytes;
  object["kernels_fused"] = result.fused.kernels;
  object["kernels_unfused"] = nullptr;
  if (result.unfused) object["kernels_unfused"] = result.unfused->kernels;
  if (!measured) return object;
  object["copy_bytes"] = result.copy_bytes;
  object["buffer_sets"] = result.sets;
  object["n"] = result.fused.times.n;
  object["fused_gb_s"] = result.gb_s();
  object["copy_gb_s"] = result.copy_gb_s();
  object["copy_percent"] = result.copy_percent();
  object["unfused_us"] = nullptr;
  add_times(object, "fused", result.fused);
  add_times(object, "copy", result.copy);
  if (result.unfused) add_times(object, "unfused", *result.unfused);
  return object;
}

std::string sweep_head() {
  return fmt::format("{:<19} {:>16} {:>22} {:>8} {:>22} {:>8} {:>5} {:>5}", "row", "size", "default", "us", "best", "us", "ratio", "tried");
}

std::string table_line(const SweepResult& result) {
  if (result.outcome != Outcome::measured) return not_measured(*result.row, result.outcome, result.detail);
  return fmt::format("{:<19} {:>16} {:>22} {:>8} {:>22} {:>8} {:>5.3f} {:>5}", result.row->name, result.size, result.standard.text,
                     microseconds(result.standard.times.median), result.best.text, microseconds(result.best.times.median), result.ratio, result.all.size());
}

json to_json(const SweepResult& result) {
  json object = {{"name", result.row->name}, {"size", result.size}, {"outcome", name_of(result.outcome)}, {"detail", result.detail}};
  if (result.outcome != Outcome::measured) return object;
  object["default"] = to_json(result.standard);
  object["best"] = to_json(result.best);
  object["default_over_best"] = result.ratio;
  object["refused"] = result.refused;
  for (const SweepPoint& point : result.all) object["all"].push_back(to_json(point));
  return object;
}

}  // namespace vkfuse::bench
