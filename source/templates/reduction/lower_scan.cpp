#include "templates/reduction/lower_scan.hpp"

#include "base/mutations.hpp"

namespace vkfuse::lowering {

namespace {

void join(const ScanText& scan, const Code& into, const Code& what, Writer& main) {
  main.line("{}({}, {});", scan.reduction.join, into, what);
}

}  // namespace

void WorkgroupScan::declare_shared(const ScanText& scan, Writer& shared) const {
  if (uses_memory())
    shared.line("shared {} {}[{}];", scan.reduction.type, scan.threads, params_.scan_slots(schedule_.subgroup));
}

void WorkgroupScan::across_threads(std::span<const ScanText* const> scans, Writer& main) const {
  for (const ScanText* scan : scans) main.line("{} {} = {};", scan->reduction.type, scan->before, scan->identity());
  if (schedule_.subgroup == 0) {
    by_memory(scans, main);
    return;
  }
  butterfly(scans, std::min(params_.reduction_threads, schedule_.subgroup), main);
  if (uses_memory()) across_subgroups(scans, main);
}

/// After the step with mask m, `total` is that of the 2m threads around this one, and `before` that of those of
/// them that come before it.
void WorkgroupScan::butterfly(std::span<const ScanText* const> scans, int threads, Writer& main) const {
  main.open("for (uint mask = 1u; mask < {}u; mask <<= 1) {{", threads);
  for (const ScanText* scan : scans) {
    const Code other = scan->reduction.name + "_other";
    main.line("{} {} = {};", scan->reduction.type, other,
              combine_.shuffled(scan->reduction.accumulators[0].dtype, scan->total, "mask"));
    main.line("if ((reduction_thread & mask) {} 0u) {}({}, {});", VKF_PLANT(lost_carry, "!=", "<"),
              scan->reduction.join, scan->before, other);
    join(*scan, scan->total, other, main);
  }
  main.close();
}

void WorkgroupScan::across_subgroups(std::span<const ScanText* const> scans, Writer& main) const {
  const int per_row = params_.reduction_threads / schedule_.subgroup;
  main.open("if (gl_SubgroupInvocationID == 0u) {{");
  for (const ScanText* scan : scans) main.line("{}[half_begin + gl_SubgroupID] = {};", scan->threads, scan->total);
  main.close();
  main.line("barrier();");
  for (const ScanText* scan : scans) main.line("{} = {};", scan->total, scan->identity());
  main.open("for (uint k = 0u; k < {}u; ++k) {{", per_row);
  main.line("uint from = half_begin + gl_SubgroupID / {0}u * {0}u + k;", per_row);
  for (const ScanText* scan : scans) {
    main.line("if (k < gl_SubgroupID % {}u) {}({}, {}[from]);", per_row, scan->reduction.join, scan->before,
              scan->threads);
    join(*scan, scan->total, scan->threads + "[from]", main);
  }
  main.close();
  main.line("half_begin = {}u - half_begin;", params_.scan_slots(schedule_.subgroup) / 2);
}

void WorkgroupScan::by_memory(std::span<const ScanText* const> scans, Writer& main) const {
  main.open("for (uint mask = 1u; mask < {}u; mask <<= 1) {{", params_.reduction_threads);
  for (const ScanText* scan : scans) main.line("{}[half_begin + thread] = {};", scan->threads, scan->total);
  main.line("barrier();");
  for (const ScanText* scan : scans) {
    const Code other = scan->reduction.name + "_other";
    main.line("{} {} = {}[half_begin + (thread ^ mask)];", scan->reduction.type, other, scan->threads);
    main.line("if ((reduction_thread & mask) {} 0u) {}({}, {});", VKF_PLANT(lost_carry, "!=", "<"),
              scan->reduction.join, scan->before, other);
    join(*scan, scan->total, other, main);
  }
  main.line("half_begin = {}u - half_begin;", params_.scan_slots(schedule_.subgroup) / 2);
  main.close();
}

}  // namespace vkfuse::lowering
