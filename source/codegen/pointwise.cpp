// The text of a pointwise kernel, in four parts: the buffers and sizes, the maths of one element, a
// group of elements, and main() with the data movement.
#include <algorithm>
#include <map>

#include "codegen/kernel.hpp"
#include "codegen/names.hpp"
#include "codegen/packing.hpp"
#include "codegen/writer.hpp"

namespace vkfuse::codegen {

namespace {

using ops::Lane;
using schedule::AccessKind;

bool is_vector(AccessKind kind) { return kind == AccessKind::contiguous || kind == AccessKind::row_vector; }

/// A value that main() hands to the element function: a loaded one, or one made from the position.
struct Feed {
  ir::NodeId value = 0;
  std::string name;
  AccessKind kind = AccessKind::contiguous;
  const std::vector<bool>* uses = nullptr;
  bool generated = false;  ///< iota's coordinate or random bits: a uint, not loaded
};

class Emitter {
 public:
  Emitter(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
          const schedule::Schedule& schedule, const Target& target, Numerics numerics, std::vector<std::string> names)
      : graph_(graph), segment_(segment), loops_(loops), schedule_(schedule), dialect_(dialect_of(target)),
        numerics_(numerics), names_(std::move(names)), hides_zeros_(target.quirks.folds_nan_away && !schedule.wide) {
    keeps_nan_ = {target.caps.keep_nan_f32, target.caps.keep_nan_f32 && target.caps.keep_nan_f64};
    elements_ = schedule.elements_per_item;
    group_ = std::min(4, elements_);
    groups_ = elements_ / group_;
    in_flight_ = schedule.items_in_flight;
    for (std::size_t i = 0; i < loops.reads.size(); ++i) {
      feeds_.push_back({loops.reads[i].value, names_[loops.reads[i].value], schedule.reads[i].kind, &loops.reads[i].uses, false});
    }
    for (std::size_t i = 0; i < loops.positions.size(); ++i) {
      const ir::NodeId id = loops.positions[i].value;
      feeds_.push_back({id, names_[id] + "_at", schedule.positions[i], &loops.positions[i].uses, true});
    }
    for (const Feed& feed : feeds_) by_element_ = by_element_ || feed.kind == AccessKind::element;
  }

  Result<Kernel> run(const std::string& name) {
    Kernel kernel;
    kernel.name = name;
    kernel.workgroup = schedule_.workgroup;
    for (ir::NodeId id : segment_.reads) kernel.bindings.push_back({id, false});
    for (ir::NodeId id : segment_.stores) kernel.bindings.push_back({id, true});
    collect_params();
    VKF_CHECK_OK(element_function());
    group_function();
    main_function();
    kernel.params = params_;
    const std::string body = functions_.take() + main_.take();
    const std::string prelude = ops::prelude_for(body);
    kernel.glsl = head(name, body) + interface(true) + prelude + (prelude.empty() ? "" : "\n") + body;
    return kernel;
  }

  /// What of the text decides how the kernel behaves: no comments about the graph, no prelude (it
  /// follows from the calls).
  Result<std::string> key() {
    collect_params();
    VKF_CHECK_OK(element_function());
    group_function();
    main_function();
    return interface(false) + functions_.take() + main_.take();
  }

 private:
  // --- sizes -------------------------------------------------------------------------------------

  /// Axes whose coordinate somebody needs, as the lowest such axis; the count of axes if none.
  [[nodiscard]] std::size_t lowest_axis() const {
    std::size_t lowest = loops_.axes.size();
    for (const Feed& feed : feeds_) {
      if (feed.kind == AccessKind::contiguous || feed.kind == AccessKind::uniform) continue;
      for (std::size_t k = 0; k < feed.uses->size(); ++k) {
        if ((*feed.uses)[k]) lowest = std::min(lowest, k);
      }
    }
    return by_element_ ? 0 : lowest;
  }

  void collect_params() {
    params_ = {{Param::Kind::items, 0}, {Param::Kind::last, 0}, {Param::Kind::row, 0}};
    const std::size_t lowest = lowest_axis();
    const std::size_t rank = loops_.axes.size();
    for (std::size_t k = std::max<std::size_t>(lowest, 1); k < rank; ++k) params_.push_back({Param::Kind::axis, static_cast<int>(k)});
    // Push constants are 128 bytes on every device; a kernel of more than ten axes divides plainly.
    magic_ = !schedule_.wide && params_.size() + 2 * rank <= 32;
    for (std::size_t k = std::max<std::size_t>(lowest, 1); magic_ && k < rank; ++k) {
      params_.push_back({Param::Kind::magic, static_cast<int>(k)});
      params_.push_back({Param::Kind::shift, static_cast<int>(k)});
    }
  }

  static std::string param_name(const Param& param) {
    switch (param.kind) {
      case Param::Kind::items: return "items";
      case Param::Kind::last: return "last";
      case Param::Kind::row: return "row";
      case Param::Kind::axis: return fmt::format("size{}", param.axis);
      case Param::Kind::magic: return fmt::format("magic{}", param.axis);
      case Param::Kind::shift: return fmt::format("shift{}", param.axis);
    }
    return {};
  }

  // --- the top of the file -----------------------------------------------------------------------

  [[nodiscard]] std::string head(const std::string& name, const std::string& body) const {
    Writer out;
    out.line("#version 450");
    if (body.find("int64_t") != std::string::npos || body.find("i64vec") != std::string::npos ||
        body.find("u64vec") != std::string::npos || body.find("packUint2x32") != std::string::npos) {
      out.line("#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require");
    }
    if (body.find("f16x2_values_native") != std::string::npos || body.find("f16x2_bits_native") != std::string::npos) {
      out.line("#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require");
    }
    if (keeps_nan_.f32) out.line("#extension GL_EXT_spirv_intrinsics : require");
    // Without it a driver may keep what is in flight in memory instead of registers.
    if (in_flight_ > 1) out.line("#extension GL_EXT_control_flow_attributes : require");
    out.blank();
    out.line("// {} of graph \"{}\": {}", comment_text(name), comment_text(graph_.name), op_summary());
    out.line("// {} elements per item, {} item{} in flight per invocation{}{}", elements_, in_flight_, in_flight_ == 1 ? "" : "s",
             schedule_.exact ? "" : ", masked tail", numerics_ == Numerics::strict ? ", strict rounding" : "");
    out.line("layout(local_size_x_id = 0) in;");
    const bool has_f64 = body.find("double") != std::string::npos;
    if (keeps_nan_.f32) out.line("spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 32);  // keep NaN and infinities of f32");
    if (keeps_nan_.f64 && has_f64) out.line("spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4466], 4461, 64);  // and of f64");
    out.blank();
    return out.take();
  }

  [[nodiscard]] std::string op_summary() const {
    std::string all;
    std::size_t listed = 0;
    for (ir::NodeId id : segment_.members) {
      if (++listed > 8) break;
      all += (all.empty() ? "" : ", ") + std::string(graph_.node(id).op->name);
    }
    if (segment_.members.size() > 8) all += fmt::format(", ... {} ops in all", segment_.members.size());
    return all;
  }

  [[nodiscard]] std::string interface(bool comments) const {
    Writer out;
    out.open("layout(push_constant) uniform Sizes {{");
    for (const Param& param : params_) {
      const char* note = param.kind == Param::Kind::items ? "  // in the iteration space"
                         : param.kind == Param::Kind::last ? "   // elements of the last item"
                         : param.kind == Param::Kind::row  ? "    // workgroups in one row of the dispatch"
                                                           : "";
      out.line("uint {};{}", param_name(param), note);
    }
    out.close(" p;");
    out.blank();
    int binding = 0;
    const auto buffer = [&](ir::NodeId id, const char* access, std::string_view word) {
      out.line("layout(set = 0, binding = {}) {} buffer Buffer{} {{ {} w[]; }} {};{}", binding, access, binding, word,
               names_[id], comments ? fmt::format("  // %{} : {}", id, comment_text(to_text(graph_.node(id).type))) : "");
      ++binding;
    };
    for (std::size_t i = 0; i < segment_.reads.size(); ++i) buffer(segment_.reads[i], "readonly", word_type(schedule_.reads[i].vector_bytes));
    for (std::size_t i = 0; i < segment_.stores.size(); ++i) buffer(segment_.stores[i], "writeonly", word_type(schedule_.store_bytes[i]));
    out.blank();
    return out.text();
  }

  static std::string_view word_type(int bytes) { return bytes == 16 ? "uvec4" : bytes == 8 ? "uvec2" : "uint"; }

  // --- the maths of one element --------------------------------------------------------------------

  [[nodiscard]] DType dtype(ir::NodeId id) const { return graph_.node(id).type.dtype; }
  [[nodiscard]] std::string scalar_type(ir::NodeId id) const {
    return std::string(ops::glsl_type(ops::lane_of(dtype(id)), dialect_.native_int64));
  }
  [[nodiscard]] std::string feed_scalar(const Feed& feed) const { return feed.generated ? "uint" : scalar_type(feed.value); }

  [[nodiscard]] std::string operand(ir::NodeId id) const {
    if (!segment::is_literal(graph_, id)) return names_[id];
    const std::byte* bytes = std::get<ir::ConstantPayload>(graph_.node(id).payload).bytes->data();
    const bool zero = hides_zeros_ && is_float(dtype(id)) && ir::decode(dtype(id), bytes) == 0;
    return zero ? hidden(dtype(id), literal(dtype(id), bytes, dialect_)) : literal(dtype(id), bytes, dialect_);
  }

  /// A float that the driver must not know: its bits are joined with the highest bit of `items`, which
  /// is never set. What drivers compute from constants differs from what their devices do.
  static std::string hidden(DType type, const std::string& text) {
    if (type == DType::f64) return fmt::format("packDouble2x32(unpackDouble2x32({}) | uvec2(0u, p.items & 0x80000000u))", text);
    return fmt::format("uintBitsToFloat(floatBitsToUint({}) | (p.items & 0x80000000u))", text);
  }

  /// The operands as they are written; the floats of an op on literals alone are hidden.
  [[nodiscard]] std::vector<std::string> operands_of(const std::vector<ir::NodeId>& ids) const {
    const bool constant = std::all_of(ids.begin(), ids.end(), [&](ir::NodeId id) { return segment::is_literal(graph_, id); });
    std::vector<std::string> operands;
    for (ir::NodeId id : ids) {
      operands.push_back(operand(id));
      const bool known = operands.back().find("p.items") == std::string::npos;
      if (constant && known && is_float(dtype(id))) operands.back() = hidden(dtype(id), operands.back());
    }
    return operands;
  }

  Result<std::string> right_side(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (node.op->cls == ops::OpClass::generate) {
      return ops::cast_expression(DType::u32, node.type.dtype, dialect_.native_int64, names_[id] + "_at");
    }
    const ops::OpRow* op = node.op;
    const std::vector<std::string> operands = operands_of(contracted_operands(id, op));
    std::string text;
    if (node.op->cls == ops::OpClass::convert) {
      const DType from = dtype(node.operands[0]);
      text = node.op->name == "bitcast" ? ops::bitcast_expression(from, node.type.dtype, dialect_.native_int64, operands[0])
                                        : ops::cast_expression(from, node.type.dtype, dialect_.native_int64, operands[0]);
      // Whole numbers are where constants hide: x ^ x, x != x.
      if (hides_zeros_ && !is_float(from) && is_float(node.type.dtype) && !text.empty()) text = hidden(node.type.dtype, text);
    } else {
      text = ops::expression(*op, operand_dtype(node), dialect_.native_int64, operands);
    }
    if (text.empty()) {
      return unsupported("'{}' of {} is not offered on this device, which has no native {} arithmetic.", node.op->name,
                         name_of(operand_dtype(node)), name_of(operand_dtype(node)));
    }
    return text;
  }

  /// The T of the op's signature.
  [[nodiscard]] DType operand_dtype(const ir::Node& node) const { return dtype(node.operands.back()); }

  /// Whether an op's result is rounded or wrapped to its dtype here.
  [[nodiscard]] bool narrows(const ir::Node& node) const {
    if (node.op->cls != ops::OpClass::elementwise) return false;  // conversions bring their own
    return !is_float(node.type.dtype) || numerics_ == Numerics::strict;
  }

  /// Products that only one sum in this kernel reads, and nobody outside, become part of that sum. Not
  /// in strict numerics, where every op rounds, and not in f32, whose product may be an infinity that the
  /// sum of an unrounded product would not see (a 16-bit product is unrounded in either case).
  void find_products() {
    if (numerics_ == Numerics::strict) return;
    std::map<ir::NodeId, int> readers;
    for (ir::NodeId id : segment_.members) {
      for (ir::NodeId operand : graph_.node(id).operands) ++readers[operand];
    }
    for (ir::NodeId id : segment_.stores) ++readers[id];
    for (ir::NodeId id : segment_.members) {
      const ir::Node& node = graph_.node(id);
      const bool half = node.type.dtype == DType::f16 || node.type.dtype == DType::bf16;
      if (node.op->of_product.empty() || !half) continue;
      for (ir::NodeId operand : node.operands) {
        const bool computed = std::binary_search(segment_.members.begin(), segment_.members.end(), operand);
        if (!computed || readers[operand] != 1 || !graph_.node(operand).op->is_product) continue;
        contracted_[operand] = id;
        break;  // one product per sum
      }
    }
  }

  /// The operands of a sum, with a contracted product's two factors in front; its row in `op`.
  [[nodiscard]] std::vector<ir::NodeId> contracted_operands(ir::NodeId id, const ops::OpRow*& op) const {
    const ir::Node& node = graph_.node(id);
    for (std::size_t i = 0; i < node.operands.size() && node.operands.size() == 2; ++i) {
      const auto product = contracted_.find(node.operands[i]);
      if (product == contracted_.end() || product->second != id) continue;
      const std::vector<ir::NodeId>& factors = graph_.node(node.operands[i]).operands;
      op = &ops::row(node.op->of_product);
      return {factors[0], factors[1], node.operands[1 - i]};
    }
    return node.operands;
  }

  Result<void> element_function() {
    std::string parameters;
    const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
    for (const Feed& feed : feeds_) add(feed_scalar(feed) + " " + feed.name);
    for (ir::NodeId id : segment_.stores) add("out " + scalar_type(id) + " " + names_[id] + "_result");
    functions_.line("// One element.");
    functions_.open("void element({}) {{", parameters);
    find_products();
    for (ir::NodeId id : segment_.members) {
      if (contracted_.count(id) != 0) continue;
      const ir::Node& node = graph_.node(id);
      VKF_TRY(text, right_side(id));
      if (narrows(node)) text = ops::narrow(node.type.dtype, text);
      functions_.line("{}{} {} = {};", is_float(node.type.dtype) ? "precise " : "", scalar_type(id), names_[id], text);
    }
    for (ir::NodeId id : segment_.stores) functions_.line("{}_result = {};", names_[id], names_[id]);
    functions_.close();
    functions_.blank();
    return {};
  }

  // --- a group of up to four elements ----------------------------------------------------------------

  [[nodiscard]] std::string feed_group_type(const Feed& feed) const {
    if (feed.generated) return group_type(Lane::u32, group_, dialect_);
    return group_type(ops::lane_of(dtype(feed.value)), group_, dialect_);
  }
  [[nodiscard]] std::string store_group_type(ir::NodeId id) const { return group_type(ops::lane_of(dtype(id)), group_, dialect_); }

  static bool per_item(AccessKind kind) { return kind == AccessKind::row_scalar || kind == AccessKind::uniform; }

  void group_function() {
    if (group_ == 1) return;
    std::string parameters;
    const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
    for (const Feed& feed : feeds_) add((per_item(feed.kind) ? feed_scalar(feed) : feed_group_type(feed)) + " " + feed.name);
    for (ir::NodeId id : segment_.stores) add("out " + store_group_type(id) + " " + names_[id]);
    functions_.line("// {} consecutive elements.", group_);
    functions_.open("void group({}) {{", parameters);
    for (int i = 0; i < group_; ++i) {
      std::string arguments;
      for (const Feed& feed : feeds_) {
        arguments += (arguments.empty() ? "" : ", ") + (per_item(feed.kind) ? feed.name : element_of(feed.name, i, group_));
      }
      for (ir::NodeId id : segment_.stores) arguments += (arguments.empty() ? "" : ", ") + element_of(names_[id], i, group_);
      functions_.line("element({});", arguments);
    }
    functions_.close();
    functions_.blank();
  }

  // --- main ------------------------------------------------------------------------------------------

  void main_function() {
    main_.open("void main() {{");
    main_.line("uint workgroup = gl_WorkGroupID.y * p.row + gl_WorkGroupID.x;");
    if (in_flight_ == 1) {
      main_.line("uint item = workgroup * gl_WorkGroupSize.x + gl_LocalInvocationID.x;");
      main_.line("if (item >= p.items) return;");
      load_phase("");
      compute_phase("");
    } else {
      main_.line("uint first = workgroup * (gl_WorkGroupSize.x * {}u) + gl_LocalInvocationID.x;", in_flight_);
      declare_raw();
      main_.line("// Every load is issued before the first result is needed.");
      main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", in_flight_);
      main_.line("uint item = min(first + u * gl_WorkGroupSize.x, p.items - 1u);");
      load_phase("[u]");
      main_.close();
      main_.open("[[unroll]] for (uint u = 0u; u < {}u; ++u) {{", in_flight_);
      main_.line("uint item = first + u * gl_WorkGroupSize.x;");
      main_.line("if (item >= p.items) return;");
      compute_phase("[u]");
      main_.close();
    }
    main_.close();
  }

  [[nodiscard]] int read_bytes(ir::NodeId id) const {
    const auto at = std::find(segment_.reads.begin(), segment_.reads.end(), id) - segment_.reads.begin();
    return schedule_.reads[static_cast<std::size_t>(at)].vector_bytes;
  }
  [[nodiscard]] int vectors(ir::NodeId id, int vector_bytes) const {
    return std::max(1, elements_ * size_of(dtype(id)) / vector_bytes);
  }
  static std::string raw_name(const Feed& feed, int vector) { return fmt::format("{}_w{}", feed.name, vector); }

  void declare_raw() {
    for (const Feed& feed : feeds_) {
      if (feed.generated) {
        if (per_item(feed.kind) || feed.kind == AccessKind::row_vector) main_.line("uint {}_base[{}];", feed.name, in_flight_);
      } else if (is_vector(feed.kind)) {
        const int bytes = read_bytes(feed.value);
        for (int v = 0; v < vectors(feed.value, bytes); ++v) main_.line("{} {}[{}];", word_type(bytes), raw_name(feed, v), in_flight_);
      } else {
        main_.line("{} {}_s[{}];", feed_scalar(feed), feed.name, in_flight_);
      }
    }
  }

  [[nodiscard]] bool uses_coordinate(std::size_t axis) const {
    return by_element_ || std::any_of(feeds_.begin(), feeds_.end(), [&](const Feed& feed) {
             return feed.kind != AccessKind::contiguous && (*feed.uses)[axis];
           });
  }

  /// Coordinates of a row-major index, inner axes first: each is what a division leaves.
  void coordinates(const std::string& start) {
    const std::size_t rank = loops_.axes.size();
    if (lowest_axis() >= rank) return;
    std::string rest = start;
    for (std::size_t k = rank; k-- > std::max<std::size_t>(lowest_axis(), 1);) {
      main_.line("uint q{} = {};", k, magic_ ? fmt::format("quotient({0}, p.magic{1}, p.shift{1})", rest, k) : fmt::format("{} / p.size{}", rest, k));
      if (uses_coordinate(k)) main_.line("uint c{0} = {1} - q{0} * p.size{0};", k, rest);
      rest = fmt::format("q{}", k);
    }
    if (lowest_axis() == 0) main_.line("uint c0 = {};", rest);
  }

  /// The row-major index over the axes a feed uses.
  [[nodiscard]] std::string index_of(const Feed& feed) const {
    std::string text;
    for (std::size_t k = 0; k < feed.uses->size(); ++k) {
      if (!(*feed.uses)[k]) continue;
      text = text.empty() ? fmt::format("c{}", k) : fmt::format("{} * p.size{} + c{}", in_product(text), k, k);
    }
    return text.empty() ? "0u" : text;
  }

  static std::string in_product(const std::string& text) { return text.find(' ') == std::string::npos ? text : "(" + text + ")"; }

  /// Vector `v` of the `count` that belong to item `at`.
  static std::string vector_index(const std::string& at, int count, int v) {
    if (count == 1) return at;
    return fmt::format("{} * {}u{}", in_product(at), count, v == 0 ? "" : fmt::format(" + {}u", v));
  }

  void load_phase(const std::string& slot) {
    if (by_element_) {
      load_by_element();
    } else {
      coordinates("item");
    }
    for (const Feed& feed : feeds_) load_feed(feed, slot);
  }

  void load_feed(const Feed& feed, const std::string& slot) {
    const auto declared = [&](std::string_view type) { return slot.empty() ? std::string(type) + " " : std::string(); };
    switch (feed.kind) {
      case AccessKind::element: return;  // loaded by load_by_element
      case AccessKind::contiguous:
      case AccessKind::row_vector: {
        const std::string at = feed.kind == AccessKind::contiguous ? "item" : index_of(feed);
        if (feed.generated) {
          if (feed.kind == AccessKind::row_vector) main_.line("{}{}_base{} = {};", declared("uint"), feed.name, slot, at);
          return;
        }
        const int bytes = read_bytes(feed.value);
        load_vectors(feed, bytes, at, declared(word_type(bytes)), slot);
        return;
      }
      case AccessKind::row_scalar:
      case AccessKind::uniform: {
        const std::string at = index_of(feed);
        if (feed.generated) {
          main_.line("{}{}_base{} = {};", declared("uint"), feed.name, slot, at);
        } else {
          main_.line("{}{}_s{} = {};", declared(feed_scalar(feed)), feed.name, slot,
                     load_element(dtype(feed.value), feed.name, in_product(at), dialect_));
        }
        return;
      }
    }
  }

  void load_vectors(const Feed& feed, int bytes, const std::string& at, const std::string& declared, const std::string& slot) {
    const int count = vectors(feed.value, bytes);
    for (int v = 0; v < count; ++v) {
      // The last item may own fewer vectors than the others: reading its last one again keeps every
      // load inside the buffer.
      const std::string index = vector_index(at, count, v);
      const bool clamp = !schedule_.exact && feed.kind == AccessKind::contiguous && v > 0;
      const int per_vector = bytes / size_of(dtype(feed.value));
      const std::string safe = clamp ? fmt::format("min({}, (p.items - 1u) * {}u + (p.last - 1u) / {}u)", index, count, per_vector) : index;
      main_.line("{}{}{} = {}.w[{}];", declared, raw_name(feed, v), slot, feed.name, safe);
    }
  }

  /// A variable of the element path: every element by its number.
  [[nodiscard]] std::string numbered(const std::string& name) const {
    if (groups_ > 1) return fmt::format("{}_e[j >> 2][j & 3u]", name);
    return group_ == 1 ? name + "_e" : name + "_e[j]";
  }

  void load_by_element() {
    main_.line("// Rows are no multiple of {} elements: broadcast values are addressed one by one.", elements_);
    for (const Feed& feed : feeds_) {
      if (feed.kind != AccessKind::element) continue;
      main_.line("{} {}_e{};", feed_group_type(feed), feed.name, groups_ > 1 ? fmt::format("[{}]", groups_) : "");
    }
    main_.line("uint start = item * {}u;", elements_);
    coordinates("start");
    main_.line("uint count = item + 1u == p.items ? p.last : {}u;", elements_);
    main_.open("for (uint j = 0u; j < count; ++j) {{");
    for (const Feed& feed : feeds_) {
      if (feed.kind != AccessKind::element) continue;
      main_.line("uint {}_i = {};", feed.name, index_of(feed));
      const std::string loaded = feed.generated ? generated_value(feed, feed.name + "_i")
                                                : load_element(dtype(feed.value), feed.name, feed.name + "_i", dialect_);
      main_.line("{} = {};", numbered(feed.name), loaded);
    }
    const std::size_t rank = loops_.axes.size();
    for (std::size_t k = rank; k-- > 1;) {
      main_.open("if (++c{0} == p.size{0}) {{", k);
      main_.line("c{} = 0u;", k);
    }
    main_.line("++c0;");
    for (std::size_t k = rank; k-- > 1;) main_.close();
    main_.close();
  }

  [[nodiscard]] std::string generated_value(const Feed& feed, const std::string& position) const {
    const auto* random = std::get_if<ir::RandomPayload>(&graph_.node(feed.value).payload);
    return random == nullptr ? position : fmt::format("philox({}, uvec2({}, 0u))", seed_text(random->seed), position);
  }
  static std::string seed_text(std::uint64_t seed) { return fmt::format("uvec2({}u, {}u)", seed & 0xffffffffu, seed >> 32); }

  /// The group `g` of a generated feed, from the item's position.
  [[nodiscard]] std::string generated_group(const Feed& feed, int g, const std::string& slot) const {
    const std::string base = feed.kind == AccessKind::contiguous ? "item" : fmt::format("{}_base{}", feed.name, slot);
    const auto* random = std::get_if<ir::RandomPayload>(&graph_.node(feed.value).payload);
    if (random != nullptr && group_ == 4) {
      return fmt::format("philox4({}, uvec2({} * {}u + {}u, 0u))", seed_text(random->seed), base, groups_, g);
    }
    std::vector<std::string> values;
    for (int i = 0; i < group_; ++i) {
      values.push_back(generated_value(feed, fmt::format("{} * {}u + {}u", base, elements_, g * group_ + i)));
    }
    return group_ == 1 ? values[0] : fmt::format("uvec{}({})", group_, fmt::join(values, ", "));
  }

  void compute_phase(const std::string& slot) {
    for (int g = 0; g < groups_; ++g) {
      std::string arguments;
      const auto pass = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
      for (const Feed& feed : feeds_) pass(feed_argument(feed, g, slot));
      for (ir::NodeId id : segment_.stores) {
        main_.line("{} {}_{};", store_group_type(id), names_[id], g);
        pass(fmt::format("{}_{}", names_[id], g));
      }
      main_.line("{}({});", group_ == 1 ? "element" : "group", arguments);
    }
    store_phase();
  }

  std::string feed_argument(const Feed& feed, int g, const std::string& slot) {
    if (feed.kind == AccessKind::element) return groups_ > 1 ? fmt::format("{}_e[{}]", feed.name, g) : feed.name + "_e";
    if (per_item(feed.kind)) {
      if (!feed.generated) return fmt::format("{}_s{}", feed.name, slot);
      return generated_value(feed, fmt::format("{}_base{}", feed.name, slot));
    }
    const std::string name = fmt::format("{}_{}", feed.name, g);
    main_.line("{} {} = {};", feed_group_type(feed), name, feed.generated ? generated_group(feed, g, slot) : unpacked(feed, g, slot));
    return name;
  }

  [[nodiscard]] std::string unpacked(const Feed& feed, int g, const std::string& slot) const {
    const DType type = dtype(feed.value);
    const int bytes = read_bytes(feed.value);
    const int group_words = group_ * size_of(type) / 4;
    const int vector_words = bytes / 4;
    if (group_words == vector_words && size_of(type) <= 4) {
      return unpack(type, group_, std::vector<std::string>{raw_name(feed, g) + slot}, dialect_, true);
    }
    std::vector<std::string> words;
    for (int w = 0; w < group_words; ++w) {
      const int word = g * group_words + w;
      const std::string raw = raw_name(feed, word / vector_words) + slot;
      words.push_back(vector_words == 1 ? raw : fmt::format("{}.{}", raw, "xyzw"[word % vector_words]));
    }
    return unpack(type, group_, words, dialect_, false);
  }

  /// One vector of a stored value.
  struct Write {
    ir::NodeId value = 0;
    int vector = 0;
    int words = 1;
    std::string at;
    std::string text;  // the words
  };

  void store_phase() {
    std::vector<Write> masked;
    for (std::size_t i = 0; i < segment_.stores.size(); ++i) {
      for (Write& write : writes_of(segment_.stores[i], schedule_.store_bytes[i])) {
        if (schedule_.exact || write.words == 1) {
          main_.line("{}.w[{}] = {};", names_[write.value], write.at, write.text);
        } else {
          masked.push_back(std::move(write));
        }
      }
    }
    if (!masked.empty()) store_masked(masked);
  }

  [[nodiscard]] std::vector<Write> writes_of(ir::NodeId id, int bytes) const {
    const DType type = dtype(id);
    const int vector_words = bytes / 4;
    const int count = vectors(id, bytes);
    std::vector<std::string> words;
    for (int g = 0; g < groups_; ++g) {
      for (std::string& word : pack(type, group_, fmt::format("{}_{}", names_[id], g), dialect_)) words.push_back(std::move(word));
    }
    std::vector<Write> writes;
    for (int v = 0; v < count; ++v) {
      const std::span<const std::string> part(words.data() + v * vector_words, static_cast<std::size_t>(vector_words));
      const bool whole_group = size_of(type) == 4 && vector_words == group_;
      const std::string text = whole_group ? pack_group(type, group_, fmt::format("{}_{}", names_[id], v)) : join_words(part);
      writes.push_back({id, v, vector_words, vector_index("item", count, v), text});
    }
    return writes;
  }

  /// Whole vectors for all items but a shorter last one, whose words are stored one by one.
  void store_masked(const std::vector<Write>& writes) {
    for (const Write& write : writes) main_.line("{} {} = {};", word_type(write.words * 4), stored_name(write), write.text);
    main_.open("if (item + 1u < p.items || p.last == {}u) {{", elements_);
    for (const Write& write : writes) main_.line("{}.w[{}] = {};", names_[write.value], write.at, stored_name(write));
    main_.otherwise();
    for (const Write& write : writes) {
      const int before = write.vector * write.words;
      main_.line("for (uint k = 0u; k < {}u && {}k < {}; ++k) {}.w[{}][k] = {}[k];", write.words,
                 before == 0 ? "" : fmt::format("{}u + ", before), last_words(size_of(dtype(write.value))), names_[write.value],
                 write.at, stored_name(write));
    }
    main_.close();
  }

  [[nodiscard]] std::string stored_name(const Write& write) const { return fmt::format("{}_w{}", names_[write.value], write.vector); }

  /// Words of the last item.
  static std::string last_words(int element_bytes) {
    switch (element_bytes) {
      case 1: return "(p.last + 3u) / 4u";
      case 2: return "(p.last + 1u) / 2u";
      case 4: return "p.last";
      default: return "p.last * 2u";
    }
  }

  const ir::Graph& graph_;
  const segment::Segment& segment_;
  const segment::Loops& loops_;
  const schedule::Schedule& schedule_;
  Dialect dialect_;
  Numerics numerics_;
  std::vector<std::string> names_;
  bool hides_zeros_ = false;  ///< see Quirks::folds_nan_away
  struct {
    bool f32 = false, f64 = false;
  } keeps_nan_;  ///< the execution mode SignedZeroInfNanPreserve, without which drivers fold x * 0
  std::map<ir::NodeId, ir::NodeId> contracted_;  ///< product -> the sum it is part of
  std::vector<Feed> feeds_;
  std::vector<Param> params_;
  bool by_element_ = false;
  bool magic_ = true;
  int elements_ = 1;
  int group_ = 1;
  int groups_ = 1;
  int in_flight_ = 1;
  Writer functions_;
  Writer main_;
};

/// Values of a segment numbered in the order it mentions them; empty for others.
std::vector<std::string> local_identifiers(const ir::Graph& graph, const segment::Segment& segment) {
  std::vector<std::string> names(graph.size());
  std::size_t count = 0;
  for (ir::NodeId id : segment.reads) names[id] = "v" + std::to_string(count++);
  for (ir::NodeId id : segment.members) names[id] = "v" + std::to_string(count++);
  return names;
}

}  // namespace

Result<Kernel> emit_pointwise(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops,
                              const schedule::Schedule& schedule, const Target& target, Numerics numerics,
                              const std::string& name) {
  VKF_TRY(kernel, Emitter(graph, segment, loops, schedule, target, numerics, identifiers(graph)).run(name));
  // The same text again with names that do not depend on where in a graph the segment is: layers that
  // repeat, as most models do, then compile once.
  VKF_TRY(key, Emitter(graph, segment, loops, schedule, target, numerics, local_identifiers(graph, segment)).key());
  kernel.key = std::move(key);
  return kernel;
}

namespace {

/// See quotient() in shaders/index.glsl.
std::uint32_t log2_ceil(std::uint32_t d) {
  std::uint32_t s = 0;
  while ((std::uint64_t{1} << s) < d) ++s;
  return s;
}
std::uint32_t magic_of(std::uint32_t d) {
  d = std::max(d, 1u);  // an axis of an empty tensor; nothing is launched
  const std::uint64_t numerator = std::uint64_t{1} << (31 + log2_ceil(d));
  return static_cast<std::uint32_t>((numerator + d - 1) / d);
}

}  // namespace

std::vector<std::uint32_t> push_constants(const Kernel& kernel, const schedule::Schedule& schedule, const Sizes& axes) {
  const bool by_element = std::find(schedule.positions.begin(), schedule.positions.end(), AccessKind::element) != schedule.positions.end() ||
                          std::any_of(schedule.reads.begin(), schedule.reads.end(),
                                      [](const schedule::ReadPlan& read) { return read.kind == AccessKind::element; });
  const auto axis_size = [&](int axis) {
    const std::int64_t size = axes[static_cast<std::size_t>(axis)];
    const bool innermost = static_cast<std::size_t>(axis) + 1 == axes.size();
    return static_cast<std::uint32_t>(innermost && !by_element ? size / schedule.elements_per_item : size);
  };
  std::vector<std::uint32_t> values;
  for (const Param& param : kernel.params) {
    switch (param.kind) {
      case Param::Kind::items: values.push_back(static_cast<std::uint32_t>(schedule.items)); break;
      case Param::Kind::last:
        values.push_back(static_cast<std::uint32_t>(schedule.elements - (schedule.items - 1) * schedule.elements_per_item));
        break;
      case Param::Kind::row: values.push_back(static_cast<std::uint32_t>(schedule.workgroups_x)); break;
      case Param::Kind::axis: values.push_back(axis_size(param.axis)); break;
      case Param::Kind::magic: values.push_back(magic_of(axis_size(param.axis))); break;
      case Param::Kind::shift: values.push_back(log2_ceil(axis_size(param.axis))); break;
    }
  }
  return values;
}

}  // namespace vkfuse::codegen
