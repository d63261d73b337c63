// The types of Preact's hooks.
type Update<T> = (value: T | ((before: T) => T)) => void;
type Cleanup = void | undefined | (() => void);
export interface Ref<T> {
  current: T;
}
export function useState<T>(first: T | (() => T)): [T, Update<T>];
export function useReducer<S, A>(reduce: (state: S, action: A) => S, first: S): [S, (action: A) => void];
export function useEffect(effect: () => Cleanup, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => Cleanup, inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T extends (...args: any[]) => unknown>(callback: T, inputs: readonly unknown[]): T;
export function useRef<T>(first: T): Ref<T>;
export function useContext<T>(context: { _: T }): T;
export function useId(): string;
