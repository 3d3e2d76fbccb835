// See gloo/context.h.
#pragma once
