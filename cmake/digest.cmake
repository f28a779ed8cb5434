# Writes a header with the digest of some files:
#   cmake -DNAME=kConstant -DOUT=header -DFILES="a;b" -P digest.cmake
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 "${file}" digest)
  cmake_path(GET file FILENAME name)
  string(APPEND all "${name} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
file(WRITE "${OUT}" "inline constexpr char ${NAME}[] = \"${digest}\";\n")
