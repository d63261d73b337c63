"""The APIs of model servers, one module each: a request's body out, the events of a reply in."""
