// The files of the web page that the build has put into this program (tools/embed_page.py).
#pragma once

#include "platform/server/page/page_file.h"

namespace lockstep::cli {

// Empty: the program was built without the page.
server::PageFiles embedded_page();

}  // namespace lockstep::cli
