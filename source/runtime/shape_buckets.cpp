#include "runtime/shape_buckets.hpp"

#include <algorithm>
#include <numeric>

#include "base/mutations.hpp"
#include "ir/structured.hpp"
#include "templates/lowering.hpp"
#include "templates/planning.hpp"

namespace vkfuse::runtime {

namespace {

constexpr std::int64_t kFirstEnd = 512;
constexpr std::int64_t kNextEnd = 8;  // times the one before
// A size beyond it is a bucket by itself: its values have no elements, or few other axes.
constexpr std::int64_t kLastEnd = std::int64_t{1} << 33;

bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

/// Elements of a step's narrowest tensor that the widest access has.
std::int64_t widest_run(const plan::Plan& plan, std::size_t step) {
  int bytes = 16;
  const segment::Segment& segment = plan.steps[step].segment;
  for (const std::vector<ir::NodeId>* ids : {&segment.reads, &segment.stores}) {
    for (ir::NodeId id : *ids) bytes = std::min(bytes, size_of(plan.graph.node(id).type.dtype));
  }
  return 16 / bytes;
}

std::map<std::string, DimFacts> facts_of(const ir::Graph& graph) {
  std::map<std::string, DimFacts> facts;
  for (const ir::Node& node : graph.nodes()) {
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol()) facts.emplace(dim.name(), dim.facts());
    }
  }
  return facts;
}

/// A size that shares nothing with others by chance: `step` times a prime, not below `least` if the facts allow, else
/// the largest that they do; `skip` such sizes are left out.
std::optional<std::int64_t> typical_size(std::int64_t step, std::int64_t least, const DimFacts& facts,
                                         std::int64_t unlike, int skip) {
  const auto suits = [&](std::int64_t times) {
    const std::int64_t size = times * step;
    return times > 2 && size >= facts.min && size <= facts.max && (unlike == 0 || size % unlike != 0) &&
           is_prime(times);
  };
  const std::int64_t first = (least + step - 1) / step;
  int left = skip;
  for (std::int64_t times = first; times < first + 4096 && times * step <= facts.max; ++times) {
    if (suits(times) && left-- == 0) return times * step;
  }
  left = skip;
  for (std::int64_t times = std::min(first, facts.max / step); times > 2 && times * step >= facts.min; --times) {
    if (suits(times) && left-- == 0) return times * step;
  }
  return std::nullopt;
}

/// All that a node computes, but for its operands.
std::string description(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  std::string text = fmt::format("{} {}", node.op->name, to_text(node.type));
  if (segment::is_literal(graph, id)) {
    for (std::byte byte : *std::get<ir::ConstantPayload>(node.payload).bytes)
      text += fmt::format(" {:02x}", std::to_integer<int>(byte));
    return text;
  }
  ir::Payload payload = node.payload;
  ir::each_attribute(payload, [&](const char* name, auto& member) {
    text += fmt::format(" {}", name);
    if constexpr (requires { member.begin(); }) {
      for (const auto one : member) text += fmt::format(",{}", static_cast<std::int64_t>(one));
    } else {
      text += fmt::format(",{}", static_cast<std::int64_t>(member));
    }
  });
  return text;
}

/// The launches of the step that `duplicate` repeats, bound to the values of this step.
Launches relocated(const Launches& first, const plan::StructuralDuplicate& duplicate) {
  Launches launches = first;
  for (Launch& launch : launches) {
    auto kernel = std::make_shared<lowering::Kernel>(*launch.kernel);
    for (lowering::Binding& binding : kernel->bindings) {
      if (!binding.scratch)
        binding.value =
            VKF_PLANT(bindings_of_duplicates,
                      VKF_PLANT(unchecked_duplicates, duplicate.here(binding.value), binding.value), binding.value);
    }
    launch.kernel = std::move(kernel);
  }
  return launches;
}

/// Members in their order with what they read, each value from outside by its place among all that are touched, so that
/// every order of values by number is the same in steps of one key. Empty for code of the user's.
std::string key_of(const ir::Graph& graph, const segment::Segment& segment, std::vector<ir::NodeId>& values) {
  values = segment.members;
  for (ir::NodeId id : segment.members) {
    const ir::Node& node = graph.node(id);
    if (std::holds_alternative<ir::CustomPayload>(node.payload) ||
        std::holds_alternative<ir::KernelPayload>(node.payload))
      return {};
    values.insert(values.end(), node.operands.begin(), node.operands.end());
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  const auto place = [&](ir::NodeId id) { return std::lower_bound(values.begin(), values.end(), id) - values.begin(); };
  std::string key;
  for (ir::NodeId id : values) {
    const bool member = std::binary_search(segment.members.begin(), segment.members.end(), id);
    const bool stored = std::find(segment.stores.begin(), segment.stores.end(), id) != segment.stores.end();
    const bool inside = member || segment::is_literal(graph, id);
    key += fmt::format("{} {}:",
                       stored   ? "store"
                       : member ? "member"
                                : "read",
                       inside ? description(graph, id) : to_text(graph.node(id).type));
    for (ir::NodeId operand : member ? graph.node(id).operands : std::vector<ir::NodeId>())
      key += fmt::format(" {}", place(operand));
    key += '\n';
  }
  return key;
}

/// The axes that two sets of loops of one segment have at unlike sizes.
segment::AxisSet unlike_axes(const segment::Loops& one, const segment::Loops& other) {
  segment::AxisSet axes = 0;
  for (std::size_t i = 0; i < std::min(one.axes.size(), other.axes.size()); ++i) {
    if (one.axes[i].size != other.axes[i].size) axes |= segment::AxisSet{1} << i;
  }
  return axes;
}

/// Whether 64 bits count the positions of what a segment touches, sizes of 0 as 1: of values without elements the other
/// axes may be of any size.
bool are_counted(const ir::Graph& graph, const segment::Segment& segment, const SymbolValues& symbols) {
  const auto is_counted = [&](ir::NodeId id) {
    auto sizes = resolve(graph.node(id).type.shape, symbols);
    if (!sizes) return false;
    for (std::int64_t& size : *sizes) size = std::max<std::int64_t>(size, 1);
    return byte_count(graph.node(id).type.dtype, *sizes).ok();
  };
  return std::all_of(segment.members.begin(), segment.members.end(), is_counted) &&
         std::all_of(segment.reads.begin(), segment.reads.end(), is_counted);
}

}  // namespace

Launch Launch::of(lowering::Kernel kernel) {
  Launch launch;
  launch.constants = std::make_shared<const std::vector<std::uint32_t>>(kernel.constants);
  launch.groups_x = kernel.groups_x;
  launch.groups_y = kernel.groups_y;
  launch.kernel = std::make_shared<const lowering::Kernel>(std::move(kernel));
  return launch;
}

lowering::Kernel Launch::whole() const {
  lowering::Kernel all = *kernel;
  all.constants = *constants;
  all.groups_x = groups_x;
  all.groups_y = groups_y;
  return all;
}

Launches launches_of(std::vector<lowering::Kernel> kernels) {
  Launches all;
  for (lowering::Kernel& kernel : kernels) all.push_back(Launch::of(std::move(kernel)));
  return all;
}

plan::StructuralDuplicates structural_duplicates_of(const plan::Plan& plan) {
  plan::StructuralDuplicates duplicates(plan.steps.size());
  std::map<std::string, std::pair<std::size_t, std::vector<ir::NodeId>>> first;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    std::vector<ir::NodeId> values;
    std::string key = key_of(plan.graph, plan.steps[i].segment, values);
    if (key.empty()) continue;
    const auto [known, is_new] = first.emplace(std::move(key), std::pair(i, values));
    if (is_new) continue;
    plan::StructuralDuplicate& original = duplicates[i].emplace();
    original.of = known->second.first;
    for (std::size_t k = 0; k < values.size(); ++k) original.values.emplace_back(known->second.second[k], values[k]);
  }
  return duplicates;
}

ShapeBuckets::ShapeBuckets(const plan::Plan& plan, schedule::Tuning tuning, lowering::LoweringOptions options)
    : plan_(plan),
      duplicates_(std::make_shared<const plan::StructuralDuplicates>(structural_duplicates_of(plan))),
      tuning_(std::move(tuning)),
      options_(std::move(options)),
      tuned_(plan.steps.size()) {
  for (std::size_t i = 0; i < plan.steps.size(); ++i) runs_.push_back(widest_run(plan, i));
}

bool ShapeBuckets::BucketKernels::has_text_of(const BucketKernels& other) const {
  return std::equal(kernels.begin(), kernels.end(), other.kernels.begin(), other.kernels.end(),
                    [](const auto& a, const auto& b) { return a->workgroup == b->workgroup && a->key == b->key; });
}

ShapeBuckets::BucketKey ShapeBuckets::bucket_key_of(std::size_t step, const SymbolValues& symbols) const {
  const std::int64_t run = runs_[step];
  BucketKey bucket_key;
  for (const auto& [name, size] : symbols) {
    ShapeBucket& one = bucket_key[name];
    if (size <= 1 || size > kLastEnd) {
      one.end = size;
      continue;
    }
    // One vector alone is no run of vectors.
    one.kind = size % run == 0 && size > run ? ShapeBucket::Kind::multiple : ShapeBucket::Kind::other;
    one.end = kFirstEnd;
    while (one.end < size) one.end *= kNextEnd;
  }
  return bucket_key;
}

Result<std::vector<lowering::RelocatableKernel>> ShapeBuckets::relocatable(
    std::size_t step, const plan::ScheduledKernel& scheduled, const plan::ScheduledKernel* reference_kernel) const {
  lowering::LoweringOptions options = options_;
  options.hoist_sizes = true;
  options.name = fmt::format("segment {}", step);
  options.only_canonical_key = reference_kernel != nullptr;
  if (reference_kernel != nullptr) options.reference_sizes = {&reference_kernel->loops, &reference_kernel->schedule};
  return lowering::relocatable({.graph = plan_.graph,
                                .segment = plan_.steps[step].segment,
                                .loops = scheduled.loops,
                                .schedule = scheduled.schedule,
                                .target = plan_.target,
                                .options = options});
}

std::optional<ShapeBuckets::BucketKernels> ShapeBuckets::bucket_kernels_at(std::size_t step, const SymbolValues& one,
                                                                           const SymbolValues& other,
                                                                           const schedule::Tuning& tuning) const {
  const segment::Segment& segment = plan_.steps[step].segment;
  if (!are_counted(plan_.graph, segment, one) || !are_counted(plan_.graph, segment, other)) return std::nullopt;
  auto loops = segment::build_loops(plan_.graph, segment, one);
  auto other_loops = segment::build_loops(plan_.graph, segment, other);
  if (!loops || !other_loops) return std::nullopt;
  auto schedule = schedule::best(plan_.graph, *loops, plan_.target, tuning, unlike_axes(*loops, *other_loops));
  if (!schedule) return std::nullopt;
  BucketKernels bucket_kernels;
  bucket_kernels.model.loops = schedule::scheduled_loops(plan_.graph, *loops, *schedule);
  bucket_kernels.model.schedule = *std::move(schedule);
  const auto second = schedule_at_other_sizes(bucket_kernels, *other_loops);
  if (!second) return std::nullopt;
  auto relocatables = relocatable(step, bucket_kernels.model, nullptr);
  auto others = relocatable(step, *second, &bucket_kernels.model);
  if (!relocatables || !others || relocatables->size() != others->size()) return std::nullopt;
  for (std::size_t i = 0; i < relocatables->size(); ++i) {
    const lowering::RelocatableKernel& a = (*relocatables)[i];
    const lowering::RelocatableKernel& b = (*others)[i];
    if (b.differs || a.canonical_key != b.canonical_key) return std::nullopt;
    auto size_binding = lowering::SizeBinding::shared(a.relocations, b.relocations, a.most_words);
    const auto words = size_binding ? size_binding->words_for(a.relocations) : std::nullopt;
    if (!words) return std::nullopt;
    bucket_kernels.kernels.push_back(
        std::make_shared<const lowering::Kernel>(lowering::bind_sizes(a, *size_binding, *words)));
    bucket_kernels.size_bindings.push_back(*std::move(size_binding));
  }
  bucket_kernels.relocatables = *std::move(relocatables);
  return bucket_kernels;
}

std::optional<plan::ScheduledKernel> ShapeBuckets::schedule_at_other_sizes(const BucketKernels& bucket_kernels,
                                                                           const segment::Loops& loops) const {
  plan::ScheduledKernel scheduled;
  scheduled.loops = schedule::scheduled_loops(plan_.graph, loops, bucket_kernels.model.schedule);
  auto alike =
      schedule::at_other_sizes(plan_.graph, scheduled.loops, plan_.target, tuning_, bucket_kernels.model.schedule);
  if (!alike) return std::nullopt;
  scheduled.schedule = *std::move(alike);
  return scheduled;
}

bool ShapeBuckets::varies(const BucketKey& bucket_key) {
  return std::any_of(bucket_key.begin(), bucket_key.end(),
                     [](const auto& one) { return one.second.kind != ShapeBucket::Kind::one; });
}

schedule::Tuning ShapeBuckets::tuning_of(std::size_t step, const BucketKey& bucket_key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto tuned = tuned_[step].find(bucket_key);
  return tuned == tuned_[step].end() ? tuning_ : tuned->second;
}

void ShapeBuckets::tune(std::size_t step, const SymbolValues& symbols, const schedule::Tuning& tuning) {
  const BucketKey bucket_key = bucket_key_of(step, symbols);
  const std::lock_guard<std::mutex> lock(mutex_);
  tuned_[step][bucket_key] = tuning;
  if (const auto known = shape_buckets_.find(bucket_key); known != shape_buckets_.end()) {
    known->second.known_kernels[step] = nullptr;
    known->second.asked[step] = false;
  }
}

std::optional<ShapeBuckets::BucketKernels> ShapeBuckets::make_bucket_kernels(std::size_t step,
                                                                             const BucketKey& bucket_key,
                                                                             const schedule::Tuning& tuning) const {
  const std::int64_t run = runs_[step];
  const std::map<std::string, DimFacts> facts = facts_of(plan_.graph);
  // A tensor at the end of a class may be larger than a buffer can be, and smaller ones of the class not.
  for (int smaller = 1; smaller <= kNextEnd; smaller *= 2) {
    SymbolValues one, other;
    int skip = 0;
    for (const auto& [name, shape_bucket] : bucket_key) {
      const auto known = facts.find(name);
      // Of a symbol that the passes have left nothing of, any size will do.
      if (shape_bucket.kind == ShapeBucket::Kind::one || known == facts.end()) {
        one[name] = other[name] = shape_bucket.end;
        continue;
      }
      const DimFacts& own = known->second;
      const bool multiple = shape_bucket.kind == ShapeBucket::Kind::multiple;
      const std::int64_t unit = multiple ? std::lcm(run, own.multiple_of) : own.multiple_of;
      const std::int64_t unlike = multiple ? 0 : run;
      const auto a = typical_size(unit, shape_bucket.end / smaller, own, unlike, skip);
      // Far apart: two that are near each other make equally many tiles.
      const auto b = typical_size(unit, shape_bucket.end / smaller * 5 / 8, own, unlike, skip);
      if (!a || !b || *a == *b) return std::nullopt;
      one[name] = *a;
      other[name] = *b;
      ++skip;
    }
    if (auto bucket_kernels = bucket_kernels_at(step, one, other, tuning)) return bucket_kernels;
  }
  return std::nullopt;
}

std::shared_ptr<const ShapeBuckets::BucketKernels> ShapeBuckets::bucket_kernels_of(std::size_t step,
                                                                                   const BucketKey& bucket_key) {
  if (!varies(bucket_key)) return nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = shape_buckets_.find(bucket_key);
    if (known != shape_buckets_.end() && known->second.asked[step]) return known->second.known_kernels[step];
  }
  auto made = make_bucket_kernels(step, bucket_key, tuning_of(step, bucket_key));
  if (made && (*duplicates_)[step]) {
    const std::shared_ptr<const BucketKernels> other = bucket_kernels_of((*duplicates_)[step]->of, bucket_key);
    if (other && made->has_text_of(*other)) made->original = other;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [known, is_new] = shape_buckets_.try_emplace(bucket_key);
  if (is_new) {
    known->second.known_kernels.resize(plan_.steps.size());
    known->second.asked.resize(plan_.steps.size(), false);
  }
  if (!known->second.asked[step]) {
    known->second.asked[step] = true;
    if (made) known->second.known_kernels[step] = std::make_shared<const BucketKernels>(*std::move(made));
  }
  return known->second.known_kernels[step];
}

ShapeBuckets::PerKernel ShapeBuckets::known_bucket_kernels(const BucketKey& bucket_key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = shape_buckets_.find(bucket_key);
  return known == shape_buckets_.end() ? PerKernel(plan_.steps.size()) : known->second.known_kernels;
}

std::optional<Launches> ShapeBuckets::fill(std::size_t step, const BucketKernels& bucket_kernels,
                                           const plan::ScheduledKernel& scheduled) const {
  auto relocatables = relocatable(step, scheduled, &bucket_kernels.model);
  if (!relocatables || relocatables->size() != bucket_kernels.relocatables.size()) return std::nullopt;
  Launches launches;
  for (std::size_t i = 0; i < relocatables->size(); ++i) {
    lowering::RelocatableKernel& own = (*relocatables)[i];
    if (own.differs || own.canonical_key != bucket_kernels.relocatables[i].canonical_key) return std::nullopt;
    const auto words = bucket_kernels.size_bindings[i].words_for(own.relocations);
    if (!words) return std::nullopt;
    own.kernel.constants.insert(own.kernel.constants.end(), words->begin(), words->end());
    const lowering::Kernel& reference_kernel = *bucket_kernels.kernels[i];
    Launch& launch = launches.emplace_back();
    launch.groups_x = own.kernel.groups_x;
    launch.groups_y = own.kernel.groups_y;
    launch.constants = std::make_shared<const std::vector<std::uint32_t>>(std::move(own.kernel.constants));
    const bool all_shared = own.kernel.workgroup == reference_kernel.workgroup &&
                            own.kernel.subgroup == reference_kernel.subgroup &&
                            own.kernel.bindings == reference_kernel.bindings;
    if (all_shared) {
      launch.kernel = bucket_kernels.kernels[i];
      continue;
    }
    own.kernel.glsl = reference_kernel.glsl;
    own.kernel.key = reference_kernel.key;
    own.kernel.code = reference_kernel.code;
    own.kernel.sizes = reference_kernel.sizes;
    launch.kernel = std::make_shared<const lowering::Kernel>(std::move(own.kernel));
  }
  return launches;
}

Result<std::vector<lowering::Kernel>> write_kernels(const plan::Plan& plan, std::size_t step,
                                                    const plan::ScheduledKernel& scheduled,
                                                    lowering::LoweringOptions options) {
  options.name = fmt::format("segment {}", step);
  const segment::Segment& segment = plan.steps[step].segment;
  if (scheduled.pieces.empty())
    return lowering::lower({plan.graph, segment, scheduled.loops, scheduled.schedule, plan.target, options});
  std::vector<lowering::Kernel> all;
  for (const plan::ScheduledDispatchPart& piece : scheduled.pieces) {
    VKF_TRY(kernels, lowering::lower({plan.graph, segment, piece.loops, piece.schedule, plan.target, options}));
    for (lowering::Kernel& kernel : kernels) {
      for (lowering::Binding& binding : kernel.bindings) {
        if (binding.scratch || binding.half) continue;
        const schedule::Window& window = piece.windows.at(binding.value);
        binding.offset = window.offset;
        binding.bytes = window.bytes;
      }
      all.push_back(std::move(kernel));
    }
  }
  return all;
}

Result<std::vector<lowering::Kernel>> ShapeBuckets::own_text(std::size_t step,
                                                             const plan::ScheduledKernel& scheduled) const {
  lowering::LoweringOptions options = options_;
  options.hoist_sizes = true;
  return write_kernels(plan_, step, scheduled, std::move(options));
}

Result<plan::ScheduledKernels> ShapeBuckets::schedule(const SymbolValues& symbols, PerKernel& used) {
  used.assign(plan_.steps.size(), nullptr);  // of steps in pieces it stays so
  struct OfRun {
    BucketKey bucket_key;
    PerKernel known;
  };
  std::map<std::int64_t, OfRun> by_run;
  const auto of_run = [&](std::size_t step) -> OfRun& {
    const auto [known, is_new] = by_run.try_emplace(runs_[step]);
    if (is_new) {
      known->second.bucket_key = bucket_key_of(step, symbols);
      known->second.known = known_bucket_kernels(known->second.bucket_key);
    }
    return known->second;
  };
  const auto bucket_kernels = [&](std::size_t step) {
    OfRun& run = of_run(step);
    if (run.known[step] == nullptr) run.known[step] = bucket_kernels_of(step, run.bucket_key);
    return run.known[step];
  };
  const auto choose = [&](std::size_t step, const segment::Loops& loops) -> std::optional<plan::ScheduledKernel> {
    used[step] = bucket_kernels(step);
    auto scheduled = used[step] ? schedule_at_other_sizes(*used[step], loops) : std::nullopt;
    if (scheduled) return scheduled;
    used[step] = nullptr;
    auto own = schedule::best(plan_.graph, loops, plan_.target, tuning_of(step, of_run(step).bucket_key));
    if (!own) return std::nullopt;  // said again where it is an error
    segment::Loops run = schedule::scheduled_loops(plan_.graph, loops, *own);
    return plan::ScheduledKernel{std::move(run), *std::move(own), std::nullopt, {}};
  };
  // If both have one form.
  const auto reuse = [&](std::size_t step) {
    const std::shared_ptr<const BucketKernels>& of = used[(*duplicates_)[step]->of];
    if (of == nullptr) return false;
    std::shared_ptr<const BucketKernels> own = bucket_kernels(step);
    if (own == nullptr || own->original != of) return false;
    used[step] = std::move(own);
    return true;
  };
  return plan::schedule_steps(plan_, symbols, tuning_, choose, {duplicates_, reuse});
}

Result<plan::ScheduledKernels> ShapeBuckets::schedule(const SymbolValues& symbols) {
  PerKernel used;
  return schedule(symbols, used);
}

Result<ShapeBuckets::WrittenKernel> ShapeBuckets::write_planned_kernel(std::size_t step, const SymbolValues& symbols,
                                                                       const schedule::Tuning& tuning) const {
  VKF_TRY(loops, segment::build_loops(plan_.graph, plan_.steps[step].segment, symbols));
  WrittenKernel written;
  const BucketKey bucket_key = bucket_key_of(step, symbols);
  const auto bucket_kernels = varies(bucket_key) ? make_bucket_kernels(step, bucket_key, tuning) : std::nullopt;
  auto alike = bucket_kernels ? schedule_at_other_sizes(*bucket_kernels, loops) : std::nullopt;
  auto launches = alike ? fill(step, *bucket_kernels, *alike) : std::nullopt;
  if (alike) {
    written.scheduled = *std::move(alike);
  } else {
    VKF_TRY(own, schedule::best(plan_.graph, loops, plan_.target, tuning));
    written.scheduled.loops = schedule::scheduled_loops(plan_.graph, loops, own);
    written.scheduled.schedule = std::move(own);
  }
  if (launches) {
    written.kernels = *std::move(launches);
  } else {
    VKF_TRY(own, own_text(step, written.scheduled));
    written.kernels = launches_of(std::move(own));
  }
  return written;
}

Result<ShapeBuckets::Written> ShapeBuckets::write(const SymbolValues& symbols) {
  Written written;
  PerKernel used;
  VKF_TRY(steps, schedule(symbols, used));
  written.kernels.reserve(steps.size());
  written.compiled.reserve(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    written.compiled.push_back(used[i] ? used[i]->compiled : nullptr);
    if (steps.is_duplicate(i)) {
      // The loops name the values of the step that is repeated, so no text is written from them for this one.
      const plan::StructuralDuplicate& duplicate = *(*duplicates_)[i];
      const bool shares_text = written.compiled[duplicate.of] != nullptr;
      Launches launches =
          shares_text ? written.kernels[duplicate.of] : relocated(written.kernels[duplicate.of], duplicate);
      for (std::size_t k = 0; k < launches.size() && shares_text; ++k) {
        // What differs from size to size are the launch and the numbers, and these are those of the repeated step.
        launches[k].kernel = used[i]->kernels[k];
        launches[k].constants =
            VKF_PLANT(model_numbers_of_duplicates, launches[k].constants,
                      std::make_shared<const std::vector<std::uint32_t>>(launches[k].kernel->constants));
      }
      if (!shares_text) written.compiled.back() = nullptr;
      written.kernels.push_back(std::move(launches));
      continue;
    }
    auto bind_sizes = used[i] ? fill(i, *used[i], steps[i]) : std::nullopt;
    if (!bind_sizes) {
      VKF_TRY(own, own_text(i, steps[i]));
      bind_sizes = launches_of(std::move(own));
      written.compiled.back() = nullptr;
    } else if (!std::equal(bind_sizes->begin(), bind_sizes->end(), used[i]->kernels.begin(),
                           [](const Launch& a, const auto& b) {
                             return a.kernel->workgroup == b->workgroup && a.kernel->subgroup == b->subgroup;
                           })) {
      written.compiled.back() = nullptr;
    }
    written.kernels.push_back(*std::move(bind_sizes));
  }
  written.steps = std::move(steps);
  return written;
}

}  // namespace vkfuse::runtime
