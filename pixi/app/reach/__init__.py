"""What personas can reach beyond the chat: MCP servers, the web, wikis, pictures, a server's history."""

from pixi.app.reach.reach import Reach

__all__ = ["Reach"]
