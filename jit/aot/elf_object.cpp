// See elf_object.h. Nothing is read but through read(), which knows the length; numbers of the file are only compared
// and added where they cannot overflow.
#include "jit/aot/elf_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/base/printable.h"

namespace hone::jit {
namespace {

struct Machine {
  std::string_view arch;
  uint16_t elf;
};
constexpr Machine kMachines[] = {{"x86_64", EM_X86_64}, {"aarch64", EM_AARCH64}};

// Dynamic tags by which an object asks for something. Kernels reach their constants relative to the instruction, so
// they need no relocation either.
struct Refused {
  Elf64_Sxword tag;
  std::string_view what;
};
constexpr Refused kRefused[] = {
    {DT_NEEDED, "needs another library"}, {DT_INIT, "has a constructor"},     {DT_FINI, "has a destructor"},
    {DT_INIT_ARRAY, "has constructors"},  {DT_FINI_ARRAY, "has destructors"}, {DT_PREINIT_ARRAY, "has constructors"},
    {DT_RPATH, "has a search path"},      {DT_RUNPATH, "has a search path"},  {DT_REL, "has relocations"},
    {DT_RELA, "has relocations"},         {DT_RELR, "has relocations"},       {DT_JMPREL, "has relocations"},
    {DT_TEXTREL, "has relocations"},      {DT_AUDIT, "names an auditor"},     {DT_DEPAUDIT, "names an auditor"},
    {DT_AUXILIARY, "is a filter"},        {DT_FILTER, "is a filter"}};

// Names of symbols are part of it, and may be anything.
Status bad(std::string_view what) { return data_loss("is no object of a package: it " + printable(what, 400)); }

class Elf {
 public:
  explicit Elf(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Status check(const std::string& arch) {
    const Result<Elf64_Ehdr> header = read<Elf64_Ehdr>(0);
    if (!header.ok() || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return bad("is not an ELF file");
    header_ = *header;
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB || header_.e_type != ET_DYN)
      return bad("is not a 64-bit little-endian shared object");
    bool known = false;
    for (const Machine& m : kMachines) known = known || (m.arch == arch && m.elf == header_.e_machine);
    if (!known) return bad(fmt::format("is for ELF machine {}, not for {}", header_.e_machine, arch));
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(header_.e_phoff, uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr)) ||
        !inside(header_.e_shoff, uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr)))
      return bad("has headers that are not in the file");
    HONE_RETURN_IF_ERROR(segments());
    return sections();
  }

  std::vector<ElfFunction> take_functions() { return std::move(functions_); }

 private:
  template <typename T>
  Result<T> read(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return bad("ends too early");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  bool inside(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }

  Status segments() {
    std::optional<Elf64_Phdr> dynamic;
    bool stack = false, code = false;
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      HONE_ASSIGN_OR_RETURN(const Elf64_Phdr segment, read<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr)));
      const bool writable = (segment.p_flags & PF_W) != 0, executable = (segment.p_flags & PF_X) != 0;
      switch (segment.p_type) {
        case PT_LOAD:
          HONE_RETURN_IF_ERROR(add_load(segment));
          if (writable && executable) return bad("has a segment that is writable and executable");
          code = code || executable;
          break;
        case PT_DYNAMIC:
          if (dynamic) return bad("has two dynamic sections");
          dynamic = segment;
          break;
        case PT_GNU_STACK:
          stack = !executable;
          break;
        case PT_INTERP:
          return bad("names a program interpreter");
        case PT_TLS:
          return bad("has thread-local variables");
        default:
          break;
      }
    }
    if (!dynamic || !code) return bad("has no code to load");
    if (!stack) return bad("asks for an executable stack");
    return dynamic_tags(*dynamic);
  }

  Status add_load(const Elf64_Phdr& segment) {
    if (!inside(segment.p_offset, segment.p_filesz) || segment.p_filesz > segment.p_memsz ||
        segment.p_memsz > kMaxSegment || segment.p_vaddr > kMaxSegment)
      return bad("has a segment that is not in the file");
    if (!loads_.empty() && segment.p_vaddr < loads_.back().p_vaddr + loads_.back().p_memsz)
      return bad("has segments that overlap");
    loads_.push_back(segment);
    return {};
  }

  // The loader reads the section where it is mapped to, so that has to be these bytes of the file.
  Status dynamic_tags(const Elf64_Phdr& segment) const {
    bool mapped = false;
    for (const Elf64_Phdr& load : loads_)
      mapped = mapped || (segment.p_vaddr >= load.p_vaddr && segment.p_vaddr - load.p_vaddr <= load.p_filesz &&
                          segment.p_filesz <= load.p_filesz - (segment.p_vaddr - load.p_vaddr) &&
                          segment.p_offset - load.p_offset == segment.p_vaddr - load.p_vaddr);
    if (!mapped) return bad("has a dynamic section that is not mapped");
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      HONE_ASSIGN_OR_RETURN(const Elf64_Dyn entry, read<Elf64_Dyn>(segment.p_offset + at));
      if (entry.d_tag == DT_NULL) return {};
      for (const Refused& refused : kRefused)
        if (entry.d_tag == refused.tag) return bad(std::string(refused.what));
    }
    return bad("has a dynamic section without an end");
  }

  Status sections() {
    for (uint64_t i = 0; i < header_.e_shnum; ++i) {
      HONE_ASSIGN_OR_RETURN(const Elf64_Shdr section, read<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)));
      if (section.sh_type == SHT_DYNSYM) return symbols(section);
    }
    return bad("has no dynamic symbols");
  }

  Status symbols(const Elf64_Shdr& table) {
    if (!inside(table.sh_offset, table.sh_size) || table.sh_entsize != sizeof(Elf64_Sym))
      return bad("has a symbol table that is not in the file");
    HONE_ASSIGN_OR_RETURN(const Elf64_Shdr names,
                          read<Elf64_Shdr>(header_.e_shoff + uint64_t{table.sh_link} * sizeof(Elf64_Shdr)));
    if (names.sh_type != SHT_STRTAB || !inside(names.sh_offset, names.sh_size)) return bad("has symbols without names");
    // The first symbol is the null symbol.
    for (uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      HONE_ASSIGN_OR_RETURN(const Elf64_Sym symbol, read<Elf64_Sym>(table.sh_offset + at));
      const std::optional<std::string> name = string_at(names, symbol.st_name);
      if (!name) return bad("has symbols without names");
      if (symbol.st_shndx == SHN_UNDEF) return bad("needs the symbol '" + *name + "' of others");
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_GNU_IFUNC) return bad("has a function that is chosen when it is loaded");
      if (type != STT_FUNC) continue;
      if (!is_code(symbol.st_value, symbol.st_size)) return bad("has the function '" + *name + "' where no code is");
      if (name->empty()) return bad("has a function without a name");
      functions_.push_back({*name, symbol.st_size});
    }
    return {};
  }

  bool is_code(uint64_t address, uint64_t size) const {
    for (const Elf64_Phdr& load : loads_)
      if ((load.p_flags & PF_X) != 0 && address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz &&
          size <= load.p_filesz - (address - load.p_vaddr))
        return true;
    return false;
  }

  std::optional<std::string> string_at(const Elf64_Shdr& names, uint64_t offset) const {
    if (offset >= names.sh_size) return std::nullopt;
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + names.sh_offset + offset;
    const auto* const end = static_cast<const char*>(std::memchr(begin, 0, names.sh_size - offset));
    if (end == nullptr) return std::nullopt;
    return std::string(begin, end);
  }

  // Addresses and sizes beyond are no kernel's; below, sums stay far from 64 bits.
  static constexpr uint64_t kMaxSegment = uint64_t{1} << 32;

  std::span<const std::byte> bytes_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Phdr> loads_;
  std::vector<ElfFunction> functions_;
};

}  // namespace

Result<std::vector<ElfFunction>> check_elf_object(std::span<const std::byte> bytes, const std::string& arch) {
  Elf elf(bytes);
  HONE_RETURN_IF_ERROR(elf.check(arch));
  return elf.take_functions();
}

}  // namespace hone::jit
