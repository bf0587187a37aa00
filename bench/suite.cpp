#include "suite.hpp"

#include <algorithm>
#include <cstdio>

#include "batch.hpp"
#include "interrupt.hpp"
#include "machine.hpp"
#include "os/terminal.hpp"
#include "page.hpp"
#include "report.hpp"

namespace vkfuse::bench {

namespace {

using nlohmann::json;

/// Which row is being measured and how long it will take, on stderr while somebody watches it.
class Progress {
 public:
  explicit Progress(std::size_t all) : all_(all) {}

  void show(std::size_t done, std::string_view name) {
    if (!shown_) return;
    std::string left = "";
    if (done > 0) {
      const auto seconds =
          static_cast<int>(seconds_since(start_) / static_cast<double>(done) * static_cast<double>(all_ - done));
      left = seconds < 90 ? fmt::format(", about {} s left", seconds)
                          : fmt::format(", about {} min left", (seconds + 30) / 60);
    }
    fmt::print(stderr, "\r{:<78}", fmt::format("[{}/{}] {}{}", done + 1, all_, name, left));
  }
  /// Before a line of the report, so that the two do not mix on one terminal.
  void clear() {
    if (shown_) fmt::print(stderr, "\r{:<78}\r", "");
  }

 private:
  bool shown_ = os::is_terminal(os::Standard::error);
  std::size_t all_;
  Clock::time_point start_ = Clock::now();
};

/// What two parts of one report must have in common.
bool same_run(const json& a, const json& b) {
  const char* const keys[] = {"device", "driver", "uuid", "suite", "vkfuse"};
  return std::all_of(std::begin(keys), std::end(keys),
                     [&](const char* key) { return a.value(key, json()) == b.value(key, json()); });
}

/// The row of an earlier report that a request asks for, if it need not be measured again: no visit of it was left out.
const json* measured_before(const json& rows, const Request& request) {
  for (const json& row : rows) {
    const std::string outcome = row.value("outcome", "");
    if (row.value("name", "") != request.row->name || (outcome != "measured" && outcome != "skipped")) continue;
    if (row.contains("unfinished")) continue;
    if (request.sizes.empty() || row.value("case", "") == case_text(*request.row, request.sizes)) return &row;
  }
  return nullptr;
}

/// That a line may have: all of them where nobody's terminal shows it.
int terminal_columns() { return os::is_terminal(os::Standard::output) ? os::terminal_columns() : kAllColumns; }

class Suite {
 public:
  explicit Suite(const SuiteOptions& options) : options_(options) {}

  Result<int> run() {
    catch_interrupts();
    VKF_CHECK_OK(run_devices());
    VKF_CHECK_OK(keep(true));
    if (interrupted()) return 130;
    return good_ ? 0 : 1;
  }

 private:
  Result<void> run_devices() {
    if (!options_.all_devices) return on(options_.device);
    VKF_TRY(devices, Device::list());
    for (const DeviceDescription& device : devices) {
      DeviceOptions one = options_.device;
      one.name = std::to_string(device.index);
      VKF_CHECK_OK(on(one));
      if (interrupted()) break;
    }
    return {};
  }

  Result<void> on(const DeviceOptions& device) {
    Session session;
    VKF_TRY(store, ScratchFolder::create());
    DeviceOptions options = device;
    options.store = {.enabled = !options_.check && !options_.sweep && !options_.planners, .folder = store->path()};
    session.store = std::move(store);
    VKF_TRY(context, runtime::Context::open(options));
    session.context = std::move(context);
    session.quick = options_.quick;
    session.check_only = options_.check;
    const char* spoil = std::getenv("VKFUSE_BENCH_SPOIL");
    session.spoil = spoil != nullptr ? spoil : "";
    VKF_TRY(about, environment(session));
    about["flags"] = options_.flags;
    reports_.push_back({{"environment", about}});
    fmt::print("{}\n{}, suite {}\n", about["device"].get<std::string>(), about["driver"].get<std::string>(),
               options_.quick ? "quick" : "full");
    fmt::print("{}\n", options_.planners ? planners_head()
                       : options_.sweep  ? sweep_head()
                                         : table_head(options_.check, columns_));
    if (options_.planners)
      return measure_all(session, "rows", [&](const Request& request) { return planners_row(session, request); });
    if (options_.sweep)
      return measure_all(session, "sweep", [&](const Request& request) { return sweep_row(session, request); });
    VKF_TRY(before, report_before(about));
    return measure_rows(session, before);
  }

  /// The part of the report to go on with that was measured under the same circumstances.
  Result<json> report_before(const json& about) const {
    if (options_.before.is_null()) return json::object();
    for (const json* device : devices_of(options_.before)) {
      if (same_run((*device)["environment"], about)) return *device;
    }
    if (options_.all_devices) return json::object();
    const json& other = (*devices_of(options_.before).front())["environment"];
    return invalid(
        "The report to go on with is of {} ({}), driver '{}', suite {}, vkfuse {}, and this run is of {} ({}), driver "
        "'{}', suite {}, vkfuse {}.",
        other.value("device", "?"), other.value("uuid", "?"), other.value("driver", "?"), other.value("suite", "?"),
        other.value("vkfuse", "?"), about.value("device", "?"), about.value("uuid", "?"), about.value("driver", "?"),
        about.value("suite", "?"), about.value("vkfuse", "?"));
  }

  /// Rows that are measured in one go.
  template <typename Measure>
  Result<void> measure_all(const Session& session, const char* key, Measure&& measure) {
    Progress progress(options_.requests.size());
    json& report = reports_.back();
    for (std::size_t i = 0; i < options_.requests.size() && !interrupted(); ++i) {
      progress.show(i, options_.requests[i].row->name);
      const auto result = measure(options_.requests[i]);
      progress.clear();
      if (interrupted()) break;  // its samples are cut short
      report[key].push_back(to_json(result));
      read_sensors(session, report[key].back());
      print(result);
      if constexpr (requires { result.better_by_model(); }) good_ = good_ && result.better_by_model() == nullptr;
      // After every row: a run that is cut off leaves what it has.
      VKF_CHECK_OK(keep(false));
    }
    report["environment"]["sensors_after"] = sensors(session.info());
    return {};
  }

  template <typename RowOrSweep>
  void print(const RowOrSweep& result) {
    if constexpr (std::is_same_v<RowOrSweep, RowResult>) {
      fmt::print("{}\n", table_line(result, columns_));
    } else {
      fmt::print("{}\n", table_line(result));
    }
    std::fflush(stdout);
    good_ = good_ && result.outcome != Outcome::wrong && result.outcome != Outcome::failed;
  }

  /// A row of the suite, measured here or before.
  struct Entry {
    std::optional<RowRun> run;
    json filed;  ///< null where there is nothing to keep
    [[nodiscard]] bool wants_more() const { return filed.is_null() || filed.contains("unfinished"); }
  };

  /// An instruction's peak, measured here or before.
  struct PeakEntry {
    Instruction instruction;
    std::optional<PeakRun> run;
    json filed;
    [[nodiscard]] bool wants_more() const { return run && (filed.is_null() || run->wants_more()); }
  };

  /// Those of an earlier report are not measured again.
  std::vector<PeakEntry> peak_entries(Session& session, const json& before) const {
    std::vector<PeakEntry> entries;
    for (const Instruction instruction : options_.peaks) {
      PeakEntry& entry = entries.emplace_back(PeakEntry{.instruction = instruction});
      for (const json& peak : before) {
        if (peak.value("instruction", "") != name_of(instruction) || peak.value("outcome", "") != "measured") continue;
        entry.filed = peak;
        session.peaks[instruction] = peak.value("gops", 0.0);
      }
      if (entry.filed.is_null()) entry.run.emplace(session, instruction);
    }
    return entries;
  }

  /// One visit of each, and lines of those that want no other.
  void visit_peaks(Session& session, std::vector<PeakEntry>& entries, std::size_t& printed) {
    for (PeakEntry& entry : entries) {
      if (interrupted()) break;
      if (!entry.wants_more()) continue;
      entry.run->visit();
      const PeakResult& result = entry.run->result();
      if (interrupted()) break;
      entry.filed = to_json(result);
      read_sensors(session, entry.filed);
      if (result.outcome == Outcome::measured) session.peaks[entry.instruction] = result.gops();
    }
    json peaks = json::array();
    for (const PeakEntry& entry : entries) {
      if (!entry.filed.is_null()) peaks.push_back(entry.filed);
    }
    reports_.back()["peaks"] = std::move(peaks);
    while (printed < entries.size() && !entries[printed].wants_more()) print(entries[printed++]);
  }

  void print(const PeakEntry& entry) {
    if (entry.run) return print(entry.run->result());
    fmt::print("{:<{}} {:>10.1f} Gop/s, as before\n", peak_name(entry.instruction), kCaseWidth,
               entry.filed.value("gops", 0.0));
  }

  void print(const Entry& entry) {
    if (entry.filed.is_null()) return;
    if (entry.run) return print(entry.run->result());
    fmt::print("{:<{}} was {} before\n", entry.filed.value("case", ""), kCaseWidth, entry.filed.value("outcome", ""));
  }

  /// Each in as many visits as it wants, all others between two of them. What an interrupt leaves are the visits that
  /// were.
  Result<void> measure_rows(Session& session, const json& report_before) {
    const json before = report_before.value("rows", json::array());
    std::vector<PeakEntry> peaks = peak_entries(session, report_before.value("peaks", json::array()));
    std::vector<Entry> entries;
    std::size_t to_come = 0, printed_peaks = 0;
    const int visits = session.check_only ? 1 : session.timing().visits;
    for (const Request& request : options_.requests) {
      Entry& entry = entries.emplace_back();
      if (const json* known = measured_before(before, request)) {
        entry.filed = *known;
      } else {
        entry.run.emplace(session, request);
        to_come += static_cast<std::size_t>(visits);
      }
    }
    Progress progress(to_come);
    std::size_t done = 0, printed = 0;
    for (int visit = 0; visit < visits && !interrupted(); ++visit) {
      visit_peaks(session, peaks, printed_peaks);
      for (Entry& entry : entries) {
        if (!entry.run || entry.filed.is_null()) continue;
        entry.run->put_beside_peaks();
        entry.filed.update(to_json(entry.run->result()));
      }
      for (std::size_t i = 0; i < entries.size() && !interrupted(); ++i) {
        Entry& entry = entries[i];
        if (!entry.run) continue;
        const std::size_t before_it = done++;
        if (!entry.wants_more()) continue;
        progress.show(before_it, options_.requests[i].row->name);
        entry.run->visit();
        progress.clear();
        const RowResult& result = entry.run->result();
        if (interrupted()) break;  // its samples are cut short
        entry.filed = to_json(result);
        if (entry.run->wants_more()) entry.filed["unfinished"] = true;
        read_sensors(session, entry.filed);
        // In their order.
        while (printed_peaks == peaks.size() && printed < entries.size() && !entries[printed].wants_more())
          print(entries[printed++]);
        VKF_CHECK_OK(keep_rows(entries));
      }
    }
    for (; printed_peaks < peaks.size(); ++printed_peaks) {
      if (!peaks[printed_peaks].filed.is_null()) print(peaks[printed_peaks]);
    }
    for (; printed < entries.size(); ++printed) print(entries[printed]);
    VKF_CHECK_OK(keep_rows(entries));
    json& report = reports_.back();
    report["environment"]["sensors_after"] = sensors(session.info());
    // A resumed report keeps what this run was not asked for.
    for (const json& row : before) {
      const json& have = report["rows"];
      const bool kept = std::any_of(have.begin(), have.end(),
                                    [&](const json& one) { return one.value("case", "") == row.value("case", ""); });
      if (!kept && row.value("outcome", "") == "measured") report["rows"].push_back(row);
    }
    return {};
  }

  /// After every visit: a run that is cut off leaves what it has.
  Result<void> keep_rows(const std::vector<Entry>& entries) {
    json rows = json::array();
    for (const Entry& entry : entries) {
      if (!entry.filed.is_null()) rows.push_back(entry.filed);
    }
    reports_.back()["rows"] = std::move(rows);
    return keep(false);
  }

  /// While the device is still warm from the row; not where a reading takes longer than it is worth.
  void read_sensors(const Session& session, json& row) {
    if (session.on_cpu() || slow_sensors_) return;
    const Clock::time_point start = Clock::now();
    row["sensors"] = sensors(session.info());
    slow_sensors_ = seconds_since(start) > 0.2;
  }

  Result<void> keep(bool last) {
    json whole = options_.all_devices ? json{{"devices", reports_}} : reports_.front();
    whole["complete"] = last && !interrupted();
    VKF_CHECK_OK(write_file(options_.json, whole.dump(1) + '\n'));
    if (!options_.csv.empty()) VKF_CHECK_OK(write_file(options_.csv, to_csv(whole)));
    if (!last || options_.html.empty()) return {};
    return write_file(options_.html, to_page({whole}));
  }

  const SuiteOptions& options_;
  int columns_ = options_.wide ? kAllColumns : terminal_columns();
  std::vector<json> reports_;  ///< one per device
  bool good_ = true;
  bool slow_sensors_ = false;
};

}  // namespace

Result<int> run_suite(const SuiteOptions& options) { return Suite(options).run(); }

}  // namespace vkfuse::bench
