#include "os/files.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <system_error>

#include <fmt/format.h>

#include "os/private_windows.hpp"
#include "os/windows.hpp"

#include <winternl.h>

namespace vkfuse::os {

namespace fs = std::filesystem;

namespace {

constexpr DWORD kShared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // what is asked of the system is counted in 32 bits

HANDLE handle_of(const Handle& handle) { return reinterpret_cast<HANDLE>(handle.native()); }

Handle to_handle(HANDLE handle) { return Handle(reinterpret_cast<Handle::Native>(handle)); }

Handle failed_with(DWORD reason) {
  ::SetLastError(reason);
  return Handle();
}

/// BACKUP_SEMANTICS opens folders, too.
Handle open_path(const fs::path& path, DWORD access) {
  return to_handle(
      ::CreateFileW(path.c_str(), access, kShared, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr));
}

std::optional<BY_HANDLE_FILE_INFORMATION> information(const Handle& file) {
  BY_HANDLE_FILE_INFORMATION facts{};
  if (::GetFileType(handle_of(file)) != FILE_TYPE_DISK || !::GetFileInformationByHandle(handle_of(file), &facts))
    return std::nullopt;
  return facts;
}

/// How a name in a folder is opened.
struct Opening {
  ACCESS_MASK access = 0;
  ULONG disposition = FILE_OPEN;
  ULONG options = 0;
  PSECURITY_DESCRIPTOR security = nullptr;
};

/// As openat: the name belongs to the open folder, whatever its path names by now, and is taken as it stands, without
/// what Win32 makes of "NUL", of dots at the end and of streams after a colon. A link opens as itself.
Handle open_in(const Handle& folder, const std::wstring& name, const Opening& how) {
  if (name.empty() || name == L"." || name == L".." || name.find_first_of(L"\\/:") != std::wstring::npos)
    return failed_with(ERROR_INVALID_NAME);
  UNICODE_STRING text{};
  text.Buffer = const_cast<wchar_t*>(name.c_str());
  text.Length = static_cast<USHORT>(name.size() * sizeof(wchar_t));
  text.MaximumLength = text.Length;
  OBJECT_ATTRIBUTES what{};
  InitializeObjectAttributes(&what, &text, OBJ_CASE_INSENSITIVE, handle_of(folder), how.security);
  HANDLE opened = INVALID_HANDLE_VALUE;
  IO_STATUS_BLOCK status{};
  const NTSTATUS result =
      ::NtCreateFile(&opened, how.access | SYNCHRONIZE, &what, &status, nullptr, FILE_ATTRIBUTE_NORMAL, kShared,
                     how.disposition, how.options | FILE_SYNCHRONOUS_IO_NONALERT | FILE_OPEN_REPARSE_POINT, nullptr, 0);
  return result >= 0 ? to_handle(opened) : failed_with(::RtlNtStatusToDosError(result));
}

Handle open_no_link(const Handle& folder, const fs::path& name, ULONG kind) {
  Handle opened = open_in(folder, name.native(), {.access = FILE_GENERIC_READ, .options = kind});
  if (!opened.is_open()) return opened;
  const auto facts = information(opened);
  if (!facts || (facts->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0)
    return failed_with(ERROR_CANT_ACCESS_FILE);
  return opened;
}

std::ptrdiff_t read_with(const Handle& file, std::span<std::byte> bytes, OVERLAPPED* where) {
  DWORD got = 0;
  const auto most = static_cast<DWORD>(std::min(bytes.size(), kAtOnce));
  if (::ReadFile(handle_of(file), bytes.data(), most, &got, where)) return static_cast<std::ptrdiff_t>(got);
  const DWORD reason = ::GetLastError();
  return reason == ERROR_HANDLE_EOF || reason == ERROR_BROKEN_PIPE ? 0 : -1;
}

/// FILE_RENAME_INFORMATION with a name after it. Newer headers have its first member as flags, too.
struct Renaming {
  ULONG flags;
  HANDLE folder;
  ULONG length;
  wchar_t name[MAX_PATH];
};

bool rename_open(const Handle& file, const Handle& folder, const std::wstring& name) {
  constexpr ULONG kReplace = 1, kPosixSemantics = 2;
  constexpr int kRenameInformation = 10, kRenameInformationEx = 65;  // the second is newer than the header's type
  using SetInformation = NTSTATUS(NTAPI*)(HANDLE, IO_STATUS_BLOCK*, void*, ULONG, int);
  const auto set_information = reinterpret_cast<SetInformation>(&::NtSetInformationFile);
  if (name.size() >= MAX_PATH) return false;
  Renaming how{};
  how.folder = handle_of(folder);
  how.length = static_cast<ULONG>(name.size() * sizeof(wchar_t));
  std::copy(name.begin(), name.end(), how.name);
  IO_STATUS_BLOCK status{};
  // Replaces files that others have open, from Windows 10 on; where that is not known, those that nobody has open.
  how.flags = kReplace | kPosixSemantics;
  if (set_information(handle_of(file), &status, &how, sizeof how, kRenameInformationEx) >= 0) return true;
  how.flags = kReplace;
  return set_information(handle_of(file), &status, &how, sizeof how, kRenameInformation) >= 0;
}

/// What a variable says, where that is an absolute path.
std::optional<fs::path> absolute_path_in(const wchar_t* variable) {
  const wchar_t* const value = ::_wgetenv(variable);
  if (value == nullptr || !fs::path(value).is_absolute()) return std::nullopt;
  return fs::path(value);
}

}  // namespace

bool Handle::close() {
  const Native native = std::exchange(native_, kNone);
  if (native == kNone) return true;
  const DWORD reason = ::GetLastError();  // of what failed before the handle goes
  const bool closed = ::CloseHandle(reinterpret_cast<HANDLE>(native)) != 0;
  if (closed) ::SetLastError(reason);
  return closed;
}

std::string last_failure() {
  std::string text = std::system_category().message(static_cast<int>(::GetLastError()));
  while (text.ends_with('\n') || text.ends_with('\r') || text.ends_with('.')) text.pop_back();
  return text;
}

bool was_missing() {
  const DWORD reason = ::GetLastError();
  return reason == ERROR_FILE_NOT_FOUND || reason == ERROR_PATH_NOT_FOUND || reason == ERROR_INVALID_NAME;
}

fs::path to_path(std::string_view text) {
  const auto size = static_cast<int>(text.size());
  const int length = size == 0 ? 0 : ::MultiByteToWideChar(CP_UTF8, 0, text.data(), size, nullptr, 0);
  std::wstring wide(static_cast<std::size_t>(length), L'\0');
  if (length > 0) ::MultiByteToWideChar(CP_UTF8, 0, text.data(), size, wide.data(), length);
  return wide;
}

Handle open_file(const fs::path& path) { return open_path(path, GENERIC_READ); }

Handle open_in_place(const fs::path& path) { return open_path(path, GENERIC_WRITE); }

Handle create_file(const fs::path& path) {
  return to_handle(
      ::CreateFileW(path.c_str(), GENERIC_WRITE, kShared, nullptr, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr));
}

Handle open_folder(const fs::path& path) {
  Handle folder = open_path(path, FILE_GENERIC_READ);
  if (!folder.is_open()) return folder;
  const auto facts = information(folder);
  if (!facts || (facts->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0) return failed_with(ERROR_DIRECTORY);
  return folder;
}

Handle open_folder_in(const Handle& folder, const fs::path& name) {
  return open_no_link(folder, name, FILE_DIRECTORY_FILE);
}

Handle open_file_in(const Handle& folder, const fs::path& name) {
  return open_no_link(folder, name, FILE_NON_DIRECTORY_FILE);
}

Handle create_file_in(const Handle& folder, const std::string& name) {
  const PrivateSecurity security;
  if (!security.is_valid()) return Handle();
  return open_in(folder, to_path(name).native(),
                 {.access = FILE_GENERIC_WRITE,
                  .disposition = FILE_CREATE,
                  .options = FILE_NON_DIRECTORY_FILE,
                  .security = security.descriptor()});
}

bool replace_in(const Handle& folder, const std::string& from, const std::string& to) {
  const Handle file = open_in(folder, to_path(from).native(), {.access = DELETE, .options = FILE_NON_DIRECTORY_FILE});
  return file.is_open() && rename_open(file, folder, to_path(to).native());
}

void remove_in(const Handle& folder, const std::string& name) {
  static_cast<void>(open_in(folder, to_path(name).native(),
                            {.access = DELETE, .options = FILE_NON_DIRECTORY_FILE | FILE_DELETE_ON_CLOSE}));
}

std::vector<Entry> list_files(const Handle& folder) {
  std::vector<Entry> all;
  // A handle for this listing alone: a listing moves its position, and Wine keeps what the first one found.
  const Handle again = to_handle(
      ::ReOpenFile(handle_of(folder), FILE_LIST_DIRECTORY | SYNCHRONIZE, kShared, FILE_FLAG_BACKUP_SEMANTICS));
  const HANDLE listed = handle_of(again.is_open() ? again : folder);
  alignas(FILE_ID_BOTH_DIR_INFO) std::byte buffer[1 << 16];
  FILE_INFO_BY_HANDLE_CLASS which = FileIdBothDirectoryRestartInfo;
  while (::GetFileInformationByHandleEx(listed, which, buffer, sizeof buffer)) {
    which = FileIdBothDirectoryInfo;
    for (const std::byte* at = buffer;;) {
      const auto* entry = reinterpret_cast<const FILE_ID_BOTH_DIR_INFO*>(at);
      if ((entry->FileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) == 0) {
        const std::wstring name(entry->FileName, entry->FileNameLength / sizeof(wchar_t));
        all.push_back({fs::path(name).string(), static_cast<std::uint64_t>(entry->EndOfFile.QuadPart),
                       since_1970_ns(entry->LastWriteTime.QuadPart)});
      }
      if (entry->NextEntryOffset == 0) break;
      at += entry->NextEntryOffset;
    }
  }
  return all;
}

std::optional<fs::path> resolve(const fs::path& path) {
  const Handle opened = open_path(path, FILE_READ_ATTRIBUTES);
  if (!opened.is_open()) return std::nullopt;
  std::wstring full(std::size_t{1} << 15, L'\0');
  const DWORD length = ::GetFinalPathNameByHandleW(handle_of(opened), full.data(), static_cast<DWORD>(full.size()),
                                                   FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
  if (length == 0 || length >= full.size()) return std::nullopt;
  full.resize(length);
  // Of a drive the usual form, "C:\...".
  constexpr std::wstring_view kLong = L"\\\\?\\";
  if (full.starts_with(kLong) && full.size() > 5 && full[5] == L':') full.erase(0, kLong.size());
  return fs::path(full);
}

bool replace_file(const fs::path& from, const fs::path& to) {
  return ::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING) != 0;
}

bool make_private_folder(const fs::path& path) {
  const PrivateSecurity security;
  if (!security.is_valid()) return false;
  SECURITY_ATTRIBUTES attributes{sizeof attributes, security.descriptor(), FALSE};
  return ::CreateDirectoryW(path.c_str(), &attributes) != 0 || ::GetLastError() == ERROR_ALREADY_EXISTS;
}

std::optional<fs::path> make_scratch_folder(const std::string& prefix) {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  if (failed) return std::nullopt;
  const PrivateSecurity security;
  if (!security.is_valid()) return std::nullopt;
  SECURITY_ATTRIBUTES attributes{sizeof attributes, security.descriptor(), FALSE};
  std::random_device device;
  for (int attempt = 0; attempt < 8; ++attempt) {
    fs::path path = parent / to_path(fmt::format("{}{:08x}", prefix, device()));
    if (::CreateDirectoryW(path.c_str(), &attributes) != 0) return path;
  }
  return std::nullopt;
}

std::optional<std::string> objection_to_folder(const Handle& folder, const std::string& path) {
  return objection_to(handle_of(folder), path);
}

bool is_pipe_or_device(const fs::path& path) {
  const Handle there = open_path(path, 0);
  return there.is_open() && ::GetFileType(handle_of(there)) != FILE_TYPE_DISK;
}

std::optional<std::uint64_t> size_of_regular(const Handle& file) {
  const auto facts = information(file);
  if (!facts || (facts->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return std::nullopt;
  return std::uint64_t{facts->nFileSizeHigh} << 32 | facts->nFileSizeLow;
}

bool is_made_while_read(const Handle&) { return false; }  // there is no /proc

void touch(const Handle& file) {
  const Handle again = to_handle(::ReOpenFile(handle_of(file), FILE_WRITE_ATTRIBUTES, kShared, 0));
  FILETIME now{};
  ::GetSystemTimeAsFileTime(&now);
  if (again.is_open()) ::SetFileTime(handle_of(again), nullptr, nullptr, &now);
}

std::ptrdiff_t read_some(const Handle& file, std::span<std::byte> bytes) { return read_with(file, bytes, nullptr); }

std::ptrdiff_t read_some_at(const Handle& file, std::uint64_t offset, std::span<std::byte> bytes) {
  OVERLAPPED where{};
  where.Offset = static_cast<DWORD>(offset);
  where.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return read_with(file, bytes, &where);
}

bool write_all(const Handle& file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    DWORD put = 0;
    const auto most = static_cast<DWORD>(std::min(bytes.size(), kAtOnce));
    if (!::WriteFile(handle_of(file), bytes.data(), most, &put, nullptr) || put == 0) return false;
    bytes = bytes.subspan(put);
  }
  return true;
}

const char* const kCacheVariables = "LOCALAPPDATA";

std::optional<std::string> cache_folder() {
  const auto folder = absolute_path_in(L"LOCALAPPDATA");
  return folder ? std::optional(folder->string()) : std::nullopt;
}

std::optional<fs::path> home_folder() { return absolute_path_in(L"USERPROFILE"); }

}  // namespace vkfuse::os
