# SPDX-License-Identifier: Apache-2.0
"""What build files of public projects look for in an installation of CANN, written anew from what these files search:
PaddleCustomDevice (backends/npu/cmake/external/ascend.cmake), ModelBox (CMake/FindACL.cmake) and OpenCV
(cmake/OpenCVFindCANN.cmake).

    CANNON_PREFIX=/path python3 tests/cli/test_layouts.py
"""
import unittest

from test_cli import CANNON, PREFIX, CliTest, clean_environment, execute

PROGRAM = """
#include <acl/acl.h>
int main(void) { return aclInit(NULL) || aclFinalize(); }
"""

# Imported targets by fixed paths below ASCEND_CUSTOM_PATH, which holds all of Ascend's software.
PADDLE = """
set(toolkit $ENV{ASCEND_CUSTOM_PATH}/ascend-toolkit/latest)
foreach(folder fwkacllib/include acllib/include)
  if(NOT EXISTS ${toolkit}/${folder}/acl/acl.h)
    message(FATAL_ERROR "no ${folder}")
  endif()
  include_directories(${toolkit}/${folder})
endforeach()
foreach(name ascendcl hccl acl_op_compiler)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${toolkit}/fwkacllib/lib64/lib${name}.so)
endforeach()
add_executable(main program.c)
target_link_libraries(main ascendcl hccl acl_op_compiler)
"""

# A find module with hints below DDK_PATH, all of whose variables are required.
MODELBOX = """
find_path(include_folder acl/acl.h HINTS $ENV{DDK_PATH}/include REQUIRED)
foreach(name ascendcl acl_dvpp acl_cblas runtime)
  find_library(${name}_library ${name} HINTS $ENV{DDK_PATH}/lib64 NO_DEFAULT_PATH REQUIRED)
  list(APPEND libraries ${${name}_library})
endforeach()
add_executable(main program.c)
target_include_directories(main PRIVATE ${include_folder})
target_link_libraries(main ${libraries})
"""

# Each library in a folder of its own; that of the prototypes depends on what is there. Without one of the libraries
# OpenCV goes on without CANN.
OPENCV = """
set(root $ENV{ASCEND_TOOLKIT_HOME})
set(prototypes ${root}/opp/built-in/op_proto)
if(EXISTS ${root}/opp/op_proto/built-in/inc)
  set(prototypes ${root}/opp/op_proto/built-in)
elseif(EXISTS ${prototypes}/lib/linux)
  set(prototypes ${prototypes}/lib/linux/${CMAKE_HOST_SYSTEM_PROCESSOR})
endif()
foreach(pair ascendcl:${root}/acllib/lib64 graph:${root}/compiler/lib64 ge_compiler:${root}/compiler/lib64
             opsproto:${prototypes} graph_base:${root}/compiler/lib64)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 folder)
  find_library(${name}_library ${name} PATHS ${folder} NO_DEFAULT_PATH REQUIRED)
  list(APPEND libraries ${${name}_library})
endforeach()
try_compile(works ${CMAKE_BINARY_DIR}/check ${CMAKE_SOURCE_DIR}/program.c
  CMAKE_FLAGS "-DINCLUDE_DIRECTORIES:STRING=${root}/include;${root}/opp" "-DLINK_LIBRARIES:STRING=${libraries}"
  OUTPUT_VARIABLE told)
if(NOT works)
  message(FATAL_ERROR "${told}")
endif()
add_executable(main program.c)
target_include_directories(main PRIVATE ${root}/include ${root}/opp)
target_link_libraries(main ${libraries})
"""


class Layouts(CliTest):
    def build(self, name, cmake, variable):
        folder = self.folder / name
        folder.mkdir()
        (folder / "program.c").write_text(PROGRAM)
        (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.18)\nproject({name} C)\n{cmake}")
        for command in (("cmake", "-S", folder, "-B", folder / "build"), ("cmake", "--build", folder / "build")):
            done = execute(*command, env=clean_environment(**{variable: str(PREFIX)}))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = execute(CANNON, "run", "--quiet", folder / "build/main")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_paddle(self):
        self.build("paddle", PADDLE, "ASCEND_CUSTOM_PATH")

    def test_modelbox(self):
        self.build("modelbox", MODELBOX, "DDK_PATH")

    def test_opencv(self):
        self.build("opencv", OPENCV, "ASCEND_TOOLKIT_HOME")


if __name__ == "__main__":
    unittest.main()
