#include "os/private_windows.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "os/files.hpp"

#include <aclapi.h>
#include <sddl.h>

namespace vkfuse::os {

namespace {

struct FreeLocal {
  void operator()(void* memory) const { ::LocalFree(memory); }
};

/// What the process's token says of the user, or of the owner of what it makes: administrators, where it is elevated.
std::vector<std::byte> token_information(TOKEN_INFORMATION_CLASS which) {
  HANDLE token = nullptr;
  if (!::OpenProcessToken(::GetCurrentProcess(), TOKEN_QUERY, &token)) return {};
  DWORD size = 0;
  ::GetTokenInformation(token, which, nullptr, 0, &size);
  std::vector<std::byte> bytes(size);
  if (size == 0 || !::GetTokenInformation(token, which, bytes.data(), size, &size)) bytes.clear();
  ::CloseHandle(token);
  return bytes;
}

std::string to_text(PSID sid) {
  wchar_t* text = nullptr;
  if (!::ConvertSidToStringSidW(sid, &text)) return "?";
  const std::unique_ptr<wchar_t, FreeLocal> held(text);
  return std::filesystem::path(text).string();
}

bool is_known(PSID sid, WELL_KNOWN_SID_TYPE type) { return ::IsWellKnownSid(sid, type) != 0; }

/// This user, and those who may do everything on the machine anyway. CREATOR OWNER stands for who makes a file, and
/// OWNER RIGHTS for the owner of the folder, who is asked of by itself.
class Trusted {
 public:
  Trusted() : user_(token_information(TokenUser)), owner_(token_information(TokenOwner)) {}
  [[nodiscard]] PSID user() const {
    return user_.empty() ? nullptr : reinterpret_cast<const TOKEN_USER*>(user_.data())->User.Sid;
  }
  [[nodiscard]] bool has(PSID sid) const {
    const PSID owner = owner_.empty() ? nullptr : reinterpret_cast<const TOKEN_OWNER*>(owner_.data())->Owner;
    return (user() != nullptr && ::EqualSid(sid, user())) || (owner != nullptr && ::EqualSid(sid, owner)) ||
           is_known(sid, WinLocalSystemSid) || is_known(sid, WinBuiltinAdministratorsSid) ||
           is_known(sid, WinCreatorOwnerSid) || is_known(sid, WinCreatorOwnerRightsSid);
  }

 private:
  std::vector<std::byte> user_, owner_;
};

/// Who else has a right to change the folder or what is in it.
PSID other_writer(ACL& list, const Trusted& trusted) {
  constexpr ACCESS_MASK kChanges = FILE_ADD_FILE | FILE_ADD_SUBDIRECTORY | FILE_DELETE_CHILD | FILE_WRITE_EA |
                                   FILE_WRITE_ATTRIBUTES | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE |
                                   GENERIC_ALL;
  for (DWORD i = 0; i < list.AceCount; ++i) {
    void* entry = nullptr;
    if (!::GetAce(&list, i, &entry)) continue;
    auto* const allowed = static_cast<ACCESS_ALLOWED_ACE*>(entry);
    // Of what allows, these are the kinds that files have, and of one layout.
    const BYTE kind = allowed->Header.AceType;
    if (kind != ACCESS_ALLOWED_ACE_TYPE && kind != ACCESS_ALLOWED_CALLBACK_ACE_TYPE) continue;
    const PSID sid = &allowed->SidStart;
    if ((allowed->Mask & kChanges) != 0 && !trusted.has(sid)) return sid;
  }
  return nullptr;
}

}  // namespace

PrivateSecurity::PrivateSecurity() {
  const Trusted trusted;
  if (trusted.user() == nullptr) return;
  const std::string text = fmt::format("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;{})", to_text(trusted.user()));
  ::ConvertStringSecurityDescriptorToSecurityDescriptorA(text.c_str(), SDDL_REVISION_1, &descriptor_, nullptr);
}

PrivateSecurity::~PrivateSecurity() { ::LocalFree(descriptor_); }

std::optional<std::string> objection_to(HANDLE folder, const std::string& path) {
  PSID owner = nullptr;
  ACL* list = nullptr;
  PSECURITY_DESCRIPTOR descriptor = nullptr;
  const DWORD failed = ::GetSecurityInfo(folder, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                                         &owner, nullptr, &list, nullptr, &descriptor);
  const std::unique_ptr<void, FreeLocal> held(descriptor);
  if (failed != ERROR_SUCCESS) {
    ::SetLastError(failed);
    return fmt::format("The folder '{}' could not be looked at: {}.", path, last_failure());
  }
  const Trusted trusted;
  if (owner == nullptr || !trusted.has(owner))
    return fmt::format("The folder '{}' belongs to user {} and not to user {}, who runs this program.", path,
                       owner == nullptr ? "?" : to_text(owner), to_text(trusted.user()));
  if (list == nullptr)
    return fmt::format("The folder '{}' has no access control list: others than its owner may write to it.", path);
  if (const PSID other = other_writer(*list, trusted))
    return fmt::format("The folder '{}' lets {} in: others than its owner may write to it.", path, to_text(other));
  return std::nullopt;
}

}  // namespace vkfuse::os
