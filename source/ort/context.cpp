#include "ort/context.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/files.hpp"
#include "os/files.hpp"

namespace vkfuse::ort {
namespace {

constexpr std::string_view kOperator = "EPContext", kDomain = "com.microsoft";
/// What a packed group begins with. Records follow: a number of 8 bytes, so many bytes, and zeros up to kAlignment. The
/// first is the model, and then a name and its bytes take turns.
constexpr std::string_view kMagic = "vkfuse context 1";
constexpr std::size_t kAlignment = 64, kLength = 8;

std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

void add_record(std::string& to, std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  for (std::size_t i = 0; i < kLength; ++i) to += static_cast<char>(size >> 8 * i & 0xff);
  to.resize(aligned(to.size()), '\0');
  to += bytes;
  to.resize(aligned(to.size()), '\0');
}

Error damaged(std::size_t at) {
  return invalid("A precompiled group of nodes is damaged at byte {}, or another version of vkfuse wrote it.", at);
}

/// The record at `at`, which becomes where the next one begins.
Result<std::span<const std::byte>> next_record(std::span<const std::byte> all, std::size_t& at) {
  if (all.size() - at < kAlignment) return damaged(at);
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kLength; ++i) size |= std::to_integer<std::uint64_t>(all[at + i]) << 8 * i;
  const std::size_t begin = at + kAlignment;
  if (size > all.size() - begin) return damaged(at);
  at = std::min(begin + aligned(size), all.size());
  return all.subspan(begin, size);
}

Result<std::string> session_entry(const Host& host, const OrtSessionOptions* session, const char* key) {
  int is_there = 0;
  VKF_CHECK_OK(taken(host, host.api->HasSessionConfigEntry(session, key, &is_there)));
  if (is_there == 0) return std::string();
  std::size_t size = 0;
  VKF_CHECK_OK(taken(host, host.api->GetSessionConfigEntry(session, key, nullptr, &size)));
  std::string value(size, '\0');
  VKF_CHECK_OK(taken(host, host.api->GetSessionConfigEntry(session, key, value.data(), &size)));
  value.resize(std::strlen(value.c_str()));
  return value;
}

Result<bool> session_switch(const Host& host, const OrtSessionOptions* session, const char* key) {
  VKF_TRY(value, session_entry(host, session, key));
  if (value != "" && value != "0" && value != "1")
    return invalid("The session's option '{}' is '{}'; it is 0 or 1.", key, value);
  return value == "1";
}

/// A text attribute; empty where the node lacks it.
Result<std::string> text_of(const Host& host, const HostNode& node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  OrtStatus* status = host.api->Node_GetAttributeByName(node.handle, name, &attribute);
  if (status != nullptr) host.api->ReleaseStatus(status);  // of one that the node lacks
  if (attribute == nullptr) return std::string();
  std::size_t size = 0;
  status = host.api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &size);  // says how much there is, and fails
  if (status != nullptr) host.api->ReleaseStatus(status);
  std::string text(size, '\0');
  if (size > 0)
    VKF_CHECK_OK(taken(host, host.api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), size, &size)));
  return text;
}

Result<std::int64_t> integer_of(const Host& host, const HostNode& node, const char* name, std::int64_t otherwise) {
  const OrtOpAttr* attribute = nullptr;
  if (OrtStatus* status = host.api->Node_GetAttributeByName(node.handle, name, &attribute); status != nullptr)
    host.api->ReleaseStatus(status);
  if (attribute == nullptr) return otherwise;
  std::int64_t value = 0;
  std::size_t size = 0;
  VKF_CHECK_OK(taken(host, host.api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &value, sizeof(value), &size)));
  return value;
}

/// The path of the model that a graph is of; empty where it came from memory.
Result<std::filesystem::path> model_path(const Host& host, const OrtGraph* graph) {
  const ORTCHAR_T* path = nullptr;
  VKF_CHECK_OK(taken(host, host.api->Graph_GetModelPath(graph, &path)));
  return path == nullptr ? std::filesystem::path() : std::filesystem::path(path);
}

/// Attributes, which ONNX Runtime copies.
class AttributeList {
 public:
  explicit AttributeList(const Host& host) : host_(host) {}
  AttributeList(const AttributeList&) = delete;
  AttributeList& operator=(const AttributeList&) = delete;
  ~AttributeList() {
    for (OrtOpAttr* one : all_) host_.api->ReleaseOpAttr(one);
  }

  Result<void> add(const char* name, std::string_view value) {
    return add(name, value.data(), static_cast<int>(value.size()), ORT_OP_ATTR_STRING);
  }
  Result<void> add(const char* name, std::int64_t value) { return add(name, &value, 1, ORT_OP_ATTR_INT); }
  std::vector<OrtOpAttr*>& all() { return all_; }

 private:
  Result<void> add(const char* name, const void* data, int count, OrtOpAttrType type) {
    OrtOpAttr* made = nullptr;
    VKF_CHECK_OK(taken(host_, host_.api->CreateOpAttr(name, data, count, type, &made)));
    all_.push_back(made);
    return {};
  }

  const Host& host_;
  std::vector<OrtOpAttr*> all_;
};

/// Writes a group beside the model of EPContext nodes. Returns its name there.
Result<std::string> write_beside(const Host& host, const OrtGraph* graph, const ContextOptions& options,
                                 const std::string& node, const std::string& bytes) {
  std::filesystem::path beside = os::to_path(options.path);
  if (beside.empty()) {
    VKF_TRY(path, model_path(host, graph));
    beside = std::move(path);
  }
  if (beside.empty())
    return invalid(
        "The groups of a model in memory have no folder to be written to: name it by the session's option "
        "'ep.context_file_path', or keep them inside by 'ep.context_embed_mode' 1.");
  std::string name = fmt::format("{}_{}.vkfuse", beside.stem().string(), node);
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == '\\' || c == ':'; }, '_');
  VKF_CHECK_OK(write_whole_file(beside.parent_path() / os::to_path(name), bytes));
  return name;
}

}  // namespace

Result<ContextOptions> read_context_options(const Host& host, const OrtSessionOptions* session) {
  ContextOptions options;
  VKF_TRY(is_written, session_switch(host, session, "ep.context_enable"));
  VKF_TRY(is_inside, session_switch(host, session, "ep.context_embed_mode"));
  VKF_TRY(path, session_entry(host, session, "ep.context_file_path"));
  options.is_written = is_written;
  options.is_inside = is_inside;
  options.path = std::move(path);
  return options;
}

bool is_context(const HostNode& node) { return node.op_type == kOperator && node.domain == kDomain; }

Result<bool> is_our_context(const Host& host, const HostNode& node) {
  if (!is_context(node)) return false;
  VKF_TRY(source, text_of(host, node, "source"));
  return source == kProviderName;
}

std::string pack(const WrittenModel& model) {
  std::string bytes(kMagic);
  bytes.resize(kAlignment, '\0');
  add_record(bytes, model.bytes);
  for (const auto& [name, elements] : model.external_data) {
    add_record(bytes, name);
    add_record(bytes, {reinterpret_cast<const char*>(elements.data()), elements.size()});
  }
  return bytes;
}

Result<UnpackedModel> unpack(std::vector<std::byte> bytes) {
  UnpackedModel made;
  made.held = std::move(bytes);
  const std::span<const std::byte> all = made.held;
  if (all.size() < kAlignment || std::memcmp(all.data(), kMagic.data(), kMagic.size()) != 0) return damaged(0);
  std::size_t at = kAlignment;
  VKF_TRY(model, next_record(all, at));
  made.model = model;
  while (at < all.size()) {
    VKF_TRY(name, next_record(all, at));
    VKF_TRY(elements, next_record(all, at));
    made.external_data.emplace(std::string(reinterpret_cast<const char*>(name.data()), name.size()), elements);
  }
  return made;
}

Result<UnpackedModel> read_context(const Host& host, const OrtGraph* graph, const HostNode& node) {
  VKF_TRY(is_inside, integer_of(host, node, "embed_mode", 1));
  VKF_TRY(text, text_of(host, node, "ep_cache_context"));
  if (is_inside != 0) {
    const auto bytes = std::as_bytes(std::span(text));
    return unpack({bytes.begin(), bytes.end()});
  }
  VKF_TRY(model, model_path(host, graph));
  const std::filesystem::path name = os::to_path(text);
  if (name.is_absolute() || std::ranges::find(name, std::filesystem::path("..")) != name.end())
    return invalid("The precompiled group '{}' is named by a path that leaves the folder of the model.", text);
  VKF_TRY(bytes, read_whole_file(model.parent_path() / name));
  const auto read = std::as_bytes(std::span(bytes));
  return unpack({read.begin(), read.end()});
}

Result<OrtNode*> write_context(const Host& host, const OrtGraph* graph, const ContextOptions& options,
                               const ContextNode& node, const WrittenModel& model) {
  std::string context = pack(model);
  if (!options.is_inside) {
    VKF_TRY(name, write_beside(host, graph, options, node.name, context));
    context = std::move(name);
  } else if (context.size() > std::size_t{2'000'000'000}) {
    return invalid(
        "A group of nodes with {} bytes fits no model: set the session's option 'ep.context_embed_mode' to "
        "0, and it is a file beside it.",
        context.size());
  }
  AttributeList attributes(host);
  VKF_CHECK_OK(attributes.add("main_context", 1));
  VKF_CHECK_OK(attributes.add("embed_mode", options.is_inside ? 1 : 0));
  VKF_CHECK_OK(attributes.add("ep_cache_context", context));
  VKF_CHECK_OK(attributes.add("source", std::string_view(kProviderName)));
  VKF_CHECK_OK(attributes.add("ep_sdk_version", std::string_view(VKFUSE_VERSION)));
  VKF_CHECK_OK(attributes.add("partition_name", node.name));
  const auto texts = [](const std::vector<std::string>& names) {
    std::vector<const char*> all;
    for (const std::string& name : names) all.push_back(name.c_str());
    return all;
  };
  const std::vector<const char*> inputs = texts(node.inputs), outputs = texts(node.outputs);
  OrtNode* made = nullptr;
  VKF_CHECK_OK(taken(
      host, host.api->GetModelEditorApi()->CreateNode(kOperator.data(), kDomain.data(), node.name.c_str(),
                                                      inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                                                      attributes.all().data(), attributes.all().size(), &made)));
  return made;
}

}  // namespace vkfuse::ort
